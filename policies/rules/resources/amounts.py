"""The amounts of extended resources in containers, quotas and limit ranges."""

from __future__ import annotations

from collections.abc import Iterator

from ..pod_spec import Container, ContainerRole, Resource, resource_list
from ..resource_names import is_extended
from ..rule import Subject
from ..unknown import at, sequence

VALIDATION = "kubernetes v1.34.4 pkg/apis/core/validation/validation.go"


def entries(subject: Subject) -> Iterator[tuple[Container, Resource]]:
    """Yield each extended resource of a pod's containers, limits first.

    Ephemeral containers are left out, because they cannot have resources.
    """
    for container in subject.pod.containers if subject.pod else ():
        if container.role is not ContainerRole.EPHEMERAL:
            for listed in (container.limits, container.requests):
                for resource in listed.values():
                    if is_extended(resource.name):
                        yield container, resource


def namespace_lists(subject: Subject) -> Iterator[dict[str, Resource]]:
    """Yield the resource lists of a ResourceQuota or LimitRange; nothing for other kinds."""
    if subject.kind == "ResourceQuota":
        yield resource_list(at(subject.manifest, "spec", "hard"), "spec.hard")
    elif subject.kind == "LimitRange":
        for index, item in enumerate(sequence(at(subject.manifest, "spec", "limits"))):
            for field in ("max", "default", "defaultRequest", "min"):
                yield resource_list(at(item, field), f"spec.limits[{index}].{field}")


def all_amounts(subject: Subject) -> Iterator[tuple[str, Resource]]:
    """Yield each amount of an extended resource with the name of its container.

    The name is empty for amounts in a ResourceQuota or LimitRange.
    """
    for container, resource in entries(subject):
        yield container.name, resource
    for listed in namespace_lists(subject):
        for name, resource in listed.items():
            if is_extended(name.removeprefix("requests.").removeprefix("limits.")):
                yield "", resource
