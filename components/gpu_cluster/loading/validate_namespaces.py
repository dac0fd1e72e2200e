"""Check that each namespace that the stack creates belongs to only one feature."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic.alias_generators import to_camel

from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, Location, fault, show


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield a fault if two features share a namespace.

    The removal of one feature would delete the namespace and the other feature's objects.
    """
    first: dict[str, Location] = {}
    for location, name in _declared_namespaces(sections):
        if name in first:
            yield fault(
                location,
                f"{show(name)}, as in {'.'.join(map(str, first[name]))}",
                "a separate namespace, because it is created and deleted with the feature",
                "remove it, or write another name, such as gpu-software",
            )
        first.setdefault(name, location)


def _declared_namespaces(sections: ValidSections) -> Iterator[tuple[Location, str]]:
    """Yield the namespace of each feature that is turned on, with its location in the document."""
    turned_on = ["validation"]
    if sections.platform is not None:
        turned_on.append(sections.platform.replace("-", "_"))
    if any(level.driver and level.driver.managed_by_daemonset for level in sections.gpu_levels):
        turned_on.append("driver_installer")
    if "monitoring" in sections.given:
        turned_on.append("monitoring")
    for name in turned_on:
        namespace = getattr(sections.sections.get(name), "namespace", None)
        if namespace is not None:
            yield (to_camel(name), "namespace"), namespace
