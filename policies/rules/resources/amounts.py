"""Amounts of extended resources, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator

from ..pod_spec import Container, ContainerRole, Resource, resource_list
from ..resource_names import is_extended
from ..rule import Subject
from ..unknown import at, sequence

VALIDATION = "kubernetes v1.34.4 pkg/apis/core/validation/validation.go"


def entries(subject: Subject) -> Iterator[tuple[Container, Resource]]:
    """Each extended resource of the containers that may have one, limits first."""
    for container in subject.pod.containers if subject.pod else ():
        if container.role is not ContainerRole.EPHEMERAL:
            for listed in (container.limits, container.requests):
                for resource in listed.values():
                    if is_extended(resource.name):
                        yield container, resource


def namespace_lists(subject: Subject) -> Iterator[dict[str, Resource]]:
    """The lists of resources of a ResourceQuota or a LimitRange; none for other kinds."""
    if subject.kind == "ResourceQuota":
        yield resource_list(at(subject.manifest, "spec", "hard"), "spec.hard")
    elif subject.kind == "LimitRange":
        for index, item in enumerate(sequence(at(subject.manifest, "spec", "limits"))):
            for field in ("max", "default", "defaultRequest", "min"):
                yield resource_list(at(item, field), f"spec.limits[{index}].{field}")


def all_amounts(subject: Subject) -> Iterator[tuple[str, Resource]]:
    """Each amount of an extended resource, in containers and in limits of namespaces.

    With the name of the container, empty outside of one.
    """
    for container, resource in entries(subject):
        yield container.name, resource
    for listed in namespace_lists(subject):
        for name, resource in listed.items():
            if is_extended(name.removeprefix("requests.").removeprefix("limits.")):
                yield "", resource
