"""Extended resources under `requests` and `limits`: what the API server checks, checked sooner.

A manifest that breaks one of these is refused by the API server, for a workload's template as
for a pod; the rules say so before anything is deployed.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.pod_spec import Container, Resource, Role, resource_list
from policies.rules.resource_names import is_extended, is_gpu
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import at, mapping, sequence

_VALIDATION = "kubernetes v1.34.4 pkg/apis/core/validation/validation.go"


def entries(subject: Subject) -> Iterator[tuple[Container, Resource]]:
    """Each extended resource of the containers that may have one, limits first."""
    for container in subject.pod.containers if subject.pod else ():
        if container.role is not Role.EPHEMERAL:
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


def _amounts(subject: Subject) -> Iterator[tuple[str, Resource]]:
    """Each amount of an extended resource, in containers and in limits of namespaces.

    With the name of the container, empty outside of one.
    """
    for container, resource in entries(subject):
        yield container.name, resource
    for listed in namespace_lists(subject):
        for name, resource in listed.items():
            if is_extended(name.removeprefix("requests.").removeprefix("limits.")):
                yield "", resource


def _readable(subject: Subject, _: Context) -> Iterator[Finding]:
    for container, resource in _amounts(subject):
        if resource.amount is None:
            yield Finding(
                path=resource.path,
                found=f"a value that is not a quantity ({resource.error})",
                wanted="a whole number such as 1",
                cure="Write the number of devices in digits, without a unit.",
                container=container,
            )


def _whole(subject: Subject, _: Context) -> Iterator[Finding]:
    for container, resource in entries(subject):
        if resource.quantity and not resource.quantity.whole:
            yield Finding(
                path=resource.path,
                found=str(resource.quantity),
                wanted="a whole number",
                cure="Ask for whole devices; parts of a GPU need MIG, time-slicing or vcuda.",
                container=container.name,
            )


def _not_negative(subject: Subject, _: Context) -> Iterator[Finding]:
    for container, resource in _amounts(subject):
        if resource.quantity and resource.quantity.milli < 0:
            yield Finding(
                path=resource.path,
                found=str(resource.quantity),
                wanted="0 or more",
                cure="Remove the sign, or the entry if no device is needed.",
                container=container,
            )


def _equal(subject: Subject, _: Context) -> Iterator[Finding]:
    for container, request in entries(subject):
        limit = container.limits.get(request.name)
        if limit is None or request is limit or not (request.quantity and limit.quantity):
            continue
        if request.quantity.milli != limit.quantity.milli:
            yield Finding(
                path=request.path,
                found=f"{request.quantity} beside a limit of {limit.quantity}",
                wanted=f"{limit.quantity}, equal to the limit",
                cure="Give the limit alone: it counts as the request too.",
                container=container.name,
            )


def _limited(subject: Subject, _: Context) -> Iterator[Finding]:
    for container, request in entries(subject):
        if container.limits_known and request.name not in container.limits:
            asked = str(request.quantity) if request.quantity else "a request"
            yield Finding(
                path=request.path,
                found=f"{asked} without a limit",
                wanted=f"limits[{request.name}] with the same value",
                cure="Move the entry from requests to limits.",
                container=container.name,
            )


def _not_pod_level(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    resources = mapping(subject.pod.spec.get("resources"))
    for part in ("limits", "requests"):
        path = subject.pod.under(f"spec.resources.{part}")
        for name, resource in resource_list(resources.get(part), path).items():
            if is_gpu(name, context) or is_extended(name):
                yield Finding(
                    path=resource.path,
                    found="a device in the resources of the pod",
                    wanted="devices in the resources of a container",
                    cure="Move the entry to limits of the container that uses the device.",
                )


def _not_ephemeral(subject: Subject, _: Context) -> Iterator[Finding]:
    for container in subject.pod.containers if subject.pod else ():
        if container.role is Role.EPHEMERAL:
            for name in sorted(container.resource_names):
                yield Finding(
                    path=f"{container.path}.resources",
                    found=f"{name[:80]} in an ephemeral container",
                    wanted="no resources",
                    cure="Use a container; ephemeral ones cannot have resources.",
                    container=container.name,
                )


RULES = (
    Rule(
        id="GPU001",
        title="GPUs come in whole numbers",
        severity=Severity.MANDATORY,
        check=_whole,
        why="The API server refuses a fraction of an extended resource, after rounding up to a "
        "thousandth: 2000m and 0.9999999 pass, 500m and 1.5 do not.",
        source=f"{_VALIDATION} ValidateResourceQuantityValue; pkg/apis/core/v1/defaults.go "
        "SetDefaults_ResourceList",
    ),
    Rule(
        id="GPU002",
        title="A GPU request equals its limit",
        severity=Severity.MANDATORY,
        check=_equal,
        why="GPUs are never overcommitted: where both are given, the API server refuses a request "
        "that differs from the limit.",
        source=f"{_VALIDATION} validateResourceRequirements",
    ),
    Rule(
        id="GPU003",
        title="A GPU request has a limit",
        severity=Severity.MANDATORY,
        check=_limited,
        why="A limit alone is enough, because it counts as the request; a request alone is "
        "refused: limits must be set for resources that cannot be overcommitted.",
        source=f"{_VALIDATION} validateResourceRequirements",
    ),
    Rule(
        id="GPU008",
        title="A GPU quantity is not negative",
        severity=Severity.MANDATORY,
        check=_not_negative,
        why="The API server refuses quantities below 0, in containers as in quotas.",
        source=f"{_VALIDATION} ValidateNonnegativeQuantity, ValidateResourceQuotaSpec",
    ),
    Rule(
        id="GPU009",
        title="A GPU quantity can be read",
        severity=Severity.MANDATORY,
        check=_readable,
        why="The API server cannot decode an object with a value such as 0x8 or two in the place "
        "of a quantity. Exponents beyond 1,000 are refused here only: no node has as many devices.",
        source="k8s.io/apimachinery v0.34.4 pkg/api/resource/quantity.go ParseQuantity",
    ),
    Rule(
        id="GPU010",
        title="GPUs are asked for by containers, not by the pod",
        severity=Severity.MANDATORY,
        check=_not_pod_level,
        why="Resources of the pod as a whole can only be cpu, memory and huge pages; the API "
        "server refuses others.",
        source=f"{_VALIDATION} validatePodResourceName",
    ),
    Rule(
        id="GPU011",
        title="Ephemeral containers have no resources",
        severity=Severity.MANDATORY,
        check=_not_ephemeral,
        why="An ephemeral container cannot have GPUs or other resources; the API server "
        "refuses them.",
        source=f"{_VALIDATION} allowedEphemeralContainerFields",
    ),
)
