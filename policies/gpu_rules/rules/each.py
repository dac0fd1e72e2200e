"""The loops over the parts of an object that the rules check: pods, containers, amounts, releases.

A rule's own function checks one part of an object, for example one container. The functions
`each_...` return the `check` of such a rule, which calls the rule's function for all these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from ..context import Context
from ..kube.gpu_resources import BY_CLASS
from ..kube.names import is_extended_resource
from ..kube.pod_resources import ContainerRole
from .helm import GPU_OPERATOR, ChartRelease, releases
from .pod_claims import gpu_claims, uses
from .pod_request import asks_for_gpus
from .pod_spec import Container, Pod, Resource, resource_list
from .replicas import pods_at_most, scaled_to
from .rule import Check, Finding, Subject
from .unknown import at, mapping, sequence

Findings = Iterator[Finding]
When = Callable[[Subject, Context], bool]
"""A condition of an object, such as `Subject.is_workload`."""
PodCheck = Callable[[Pod, Subject, Context], Findings]
ContainerCheck = Callable[[Container, Context], Findings]
AmountCheck = Callable[[Resource, Container, Context], Findings]
ReleaseCheck = Callable[[ChartRelease, Context], Findings]

ALL_ROLES: Final = frozenset(ContainerRole)
STARTING: Final = frozenset({ContainerRole.INIT, ContainerRole.SIDECAR})
"""Roles of the containers in `initContainers`."""


def _is_any(_: Subject, __: Context) -> bool:
    return True


def in_turn(*checks: Check) -> Check:
    """Return a check that yields the findings of several checks, one check after another."""
    return partial(_in_turn, checks)


def _in_turn(checks: Sequence[Check], subject: Subject, context: Context) -> Findings:
    for check in checks:
        yield from check(subject, context)


def each_object(check: Check, *kinds: str) -> Check:
    """Return a check of the objects of the given kinds."""
    return partial(_of_kinds, check, kinds)


def _of_kinds(check: Check, kinds: Collection[str], subject: Subject, context: Context) -> Findings:
    if subject.kind in kinds:
        yield from check(subject, context)


def each_pod(check: PodCheck, when: When = _is_any) -> Check:
    """Return a check of the pod or pod template in an object.

    Args:
        check: Check of one pod.
        when: Condition that the object must satisfy.
    """
    return partial(_of_pod, check, when)


def _of_pod(check: PodCheck, when: When, subject: Subject, context: Context) -> Findings:
    if subject.pod is not None and when(subject, context):
        yield from check(subject.pod, subject, context)


def each_container(
    check: ContainerCheck,
    roles: Collection[ContainerRole] = ALL_ROLES,
    when: When = _is_any,
) -> Check:
    """Return a check of the containers in a pod, whose findings get the container's name.

    Args:
        check: Check of one container.
        roles: Roles of the containers that are checked.
        when: Condition that the object must satisfy.
    """
    return each_pod(partial(_of_containers, check, roles), when)


def _of_containers(
    check: ContainerCheck,
    roles: Collection[ContainerRole],
    pod: Pod,
    _: Subject,
    context: Context,
) -> Findings:
    for container in pod.containers:
        if container.role in roles:
            yield from named(container, check(container, context))


def each_gpu_container(check: ContainerCheck) -> Check:
    """Return a check of the containers that request GPUs (`gpu_containers`)."""
    return partial(_of_gpu_containers, check)


def _of_gpu_containers(check: ContainerCheck, subject: Subject, context: Context) -> Findings:
    for container in gpu_containers(subject, context):
        yield from named(container, check(container, context))


def each_amount(check: AmountCheck, *, by_class: bool = False) -> Check:
    """Return a check of the amounts of extended resources that containers request, limits first.

    Args:
        check: Check of one amount.
        by_class: Whether the resources of DeviceClasses are checked, too.
    """
    return each_pod(partial(_of_amounts, check, by_class))


def _of_amounts(
    check: AmountCheck, by_class: bool, pod: Pod, _: Subject, context: Context
) -> Findings:
    for container in pod.resource_containers:
        for resource in _extended_resources(container, by_class):
            yield from named(container, check(resource, container, context))


def each_amount_or_quota(check: Callable[[Resource], Findings]) -> Check:
    """Return a check of amounts of extended resources in containers, quotas and limit ranges."""
    of_amounts = each_amount(lambda resource, _, __: check(resource), by_class=True)
    return in_turn(of_amounts, partial(_of_quotas, check))


def _of_quotas(check: Callable[[Resource], Findings], subject: Subject, _: Context) -> Findings:
    for name, resource in _quota_entries(subject):
        if is_extended_resource(name.removeprefix("requests.").removeprefix("limits.")):
            yield from check(resource)


def each_release(check: ReleaseCheck, charts: Collection[str] = (GPU_OPERATOR,)) -> Check:
    """Return a check of the Helm releases of the given charts.

    Args:
        check: Check of one release.
        charts: Names of the charts; by default only the GPU Operator's.
    """
    return partial(_of_releases, check, charts)


def _of_releases(
    check: ReleaseCheck, charts: Collection[str], subject: Subject, context: Context
) -> Findings:
    for chart in releases(subject):
        if chart.chart in charts:
            for finding in check(chart, context):
                yield replace(finding, path=chart.place(finding.path))


def named(container: Container, findings: Iterable[Finding]) -> Findings:
    """Yield findings with the name of the container that they are about."""
    for finding in findings:
        yield replace(finding, container=container.name)


def gpu_containers(subject: Subject, context: Context) -> Iterator[Container]:
    """Yield the containers of a pod that request GPUs, by resources or by claims.

    An amount that is not known, or is invalid, counts as a request.
    """
    claims = frozenset(claim.name for claim in gpu_claims(subject, context))
    for container in subject.pod.resource_containers if subject.pod else ():
        if asks_for_gpus(container, context) or uses(container, claims):
            yield container


def _extended_resources(container: Container, by_class: bool) -> Iterator[Resource]:
    for listed in (container.limits, container.requests):
        for resource in listed.values():
            is_of_class = by_class and resource.name.startswith(BY_CLASS)
            if is_of_class or is_extended_resource(resource.name):
                yield resource


def limit_items(subject: Subject) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the path and the content of each item in a LimitRange; nothing for other kinds."""
    if subject.kind == "LimitRange":
        for index, item in enumerate(sequence(at(subject.manifest, "spec", "limits"))):
            yield f"spec.limits[{index}]", mapping(item)


def _quota_entries(subject: Subject) -> Iterator[tuple[str, Resource]]:
    if subject.kind == "ResourceQuota":
        yield from resource_list(at(subject.manifest, "spec", "hard"), "spec.hard").items()
    for path, item in limit_items(subject):
        for field in ("max", "default", "defaultRequest", "min"):
            yield from resource_list(item.get(field), f"{path}.{field}").items()


def pods_of_stack(subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Pod, int]]:
    """Yield each object of a stack that has a pod, its pod, and its maximum number of such pods."""
    scaled = scaled_to(subjects)
    for subject in subjects:
        if subject.pod is not None:
            yield subject, subject.pod, pods_at_most(subject, scaled)
