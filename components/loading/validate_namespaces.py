"""Each namespace that the stack makes is one feature's alone."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.alias_generators import to_camel

from components.settings.valid_sections import ValidSections
from policies.faults import Fault, Location, fault, show


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Two features in one namespace: the first that goes would take the other's objects away."""
    first: dict[str, Location] = {}
    for location, name in _declared(sections):
        if name in first:
            yield fault(
                location,
                f"{show(name)}, as in {'.'.join(map(str, first[name]))}",
                "a namespace of its own: it is made with the feature and goes with it",
                "leave it out, or write another name",
            )
        first.setdefault(name, location)


def _declared(sections: ValidSections) -> Iterator[tuple[Location, str]]:
    """The namespaces of the features that a document turns on, and where each is written."""
    turned_on = ["validation"]
    if sections.platform is not None:
        turned_on.append(sections.platform.replace("-", "_"))
    if sections.driver is not None and sections.driver.managed_by_daemonset:
        turned_on.append("driver_installer")
    if "monitoring" in sections.given:
        turned_on.append("monitoring")
    for name in turned_on:
        namespace = getattr(sections.section(name), "namespace", None)
        if namespace is not None:
            yield (to_camel(name), "namespace"), namespace
