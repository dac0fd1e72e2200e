"""Each namespace that the stack makes is one feature's alone."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.alias_generators import to_camel

from components.settings.parts import Parts
from policies.faults import Fault, Location, fault, show


def problems(parts: Parts) -> Iterator[Fault]:
    """Two features in one namespace: the first that goes would take the other's objects away."""
    first: dict[str, Location] = {}
    for location, name in _declared(parts):
        if name in first:
            yield fault(
                location,
                f"{show(name)}, as in {'.'.join(map(str, first[name]))}",
                "a namespace of its own: it is made with the feature and goes with it",
                "leave it out, or write another name",
            )
        first.setdefault(name, location)


def _declared(parts: Parts) -> Iterator[tuple[Location, str]]:
    """The namespaces of the features that a document turns on, and where each is written."""
    turned_on = ["validation"]
    if parts.platform is not None:
        turned_on.append(parts.platform.replace("-", "_"))
    if parts.driver is not None and parts.driver.managed_by_daemonset:
        turned_on.append("driver_installer")
    if "monitoring" in parts.given:
        turned_on.append("monitoring")
    for name in turned_on:
        namespace = getattr(parts.section(name), "namespace", None)
        if namespace is not None:
            yield (to_camel(name), "namespace"), namespace
