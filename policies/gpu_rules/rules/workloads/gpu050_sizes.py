"""Rule GPU050: a container that requests GPUs should also request CPU and memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from ...context import Context, Severity
from ...kube.quantity import show
from .. import cel
from ..each import each_pod, gpu_containers
from ..example import POD, Example
from ..pod_request import request_of_containers
from ..pod_spec import Container, Pod
from ..rule import Finding, Rule, Subject
from ..signs import CLAIMS, NAMES, NO_LIMIT, On, Sign
from ..twin import pods
from ..unknown import UNKNOWN

_SIZES = ("cpu", "memory")


def _check_sizes(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    """Yield one finding for all containers of an object: advice of this rule is the most common."""
    findings = list(_check_each_size(pod, subject, context))
    if len(findings) > 1:
        more = f"{findings[0].found}, and {len(findings) - 1} more such findings in this object"
        yield replace(findings[0], found=more)
    else:
        yield from findings


def _check_each_size(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    asking = [each for each in gpu_containers(subject, context) if _has_known_sizes(each)]
    whole = pod.resources
    if not asking or not _has_known_sizes(whole):
        return
    shared = set(_shared_resources(pod, whole))
    for container in asking:
        yield from _missing_sizes(container, shared)
        if "memory" not in whole.limits:
            yield from _check_unequal(container if container.effective("memory") else whole)
    if "memory" in whole.limits:
        yield from _unequal_whole(pod, whole)


def _shared_resources(pod: Pod, whole: Container) -> Iterator[str]:
    """Yield the resources that the containers of a pod share.

    If the pod has a limit of any kind, the API server adds a request of each resource that a
    container requests (kubernetes v1.36.3 pkg/apis/core/v1/defaults.go defaultPodRequests).
    """
    if whole.effective("memory"):
        yield "memory"
    of_containers = (container.effective("cpu") for container in pod.resource_containers)
    if whole.effective("cpu") or (whole.limits and any(of_containers)):
        yield "cpu"


def _has_known_sizes(container: Container) -> bool:
    return container.requests_known and container.limits_known


def _missing_sizes(container: Container, shared: Collection[str]) -> Iterator[Finding]:
    names = [name for name in _SIZES if name not in shared and container.effective(name) is None]
    if names:
        yield Finding(
            path=f"{container.path}.resources.requests[{names[0]}]",
            found="no request of " + " and ".join(names),
            wanted="requests of cpu and memory",
            cure="Add the requests: otherwise other pods may leave the GPU waiting for cpu or "
            "memory.",
            container=container.name,
        )


def _unequal_whole(pod: Pod, whole: Container) -> Iterator[Finding]:
    """Yield a finding if the pod as a whole requests less memory than its limit.

    Without a request of its own, a pod requests what its containers request together.
    """
    limit = whole.limits["memory"]
    memory_requests = [container.effective("memory") for container in pod.resource_containers]
    if "memory" in whole.requests or not any(memory_requests):
        yield from _check_unequal(whole)
    elif limit.quantity and all(request.quantity for request in memory_requests if request):
        together = request_of_containers(pod, "memory")
        if together != limit.quantity.units:
            yield Finding(
                path=limit.path,
                found=f"{limit.quantity}, but containers that request {show(together)} together",
                wanted="a request of the pod as a whole, equal to the limit",
                cure="Add the request: memory above the request is reclaimed by killing the "
                "process.",
            )


def _check_unequal(container: Container) -> Iterator[Finding]:
    request, limit = container.effective("memory"), container.limits.get("memory")
    if not (request and request.quantity) or (limit and limit.amount is UNKNOWN):
        return
    if (limit.quantity.milli if limit and limit.quantity else None) != request.quantity.milli:
        yield Finding(
            path=f"{container.path}.resources.limits[memory]",
            found=str(limit.quantity) if limit and limit.quantity else "none",
            wanted=f"{request.quantity}, equal to the request",
            cure="Set both to one value: memory above the request is reclaimed by killing the "
            "process.",
            container=container.name,
        )


RULE = Rule(
    id="GPU050",
    title="A GPU container requests cpu and memory",
    severity=Severity.ADVISORY,
    check=each_pod(_check_sizes),
    why="Without requests, the node fills with other pods, and the GPU waits for data. If "
    "memory has a limit above its request, or no limit, the container is one of the first that are "
    "killed when the node runs out of memory. Requests of the pod as a whole "
    "(spec.resources) count, too.",
    source="kubernetes v1.34.4 pkg/kubelet/qos; gatekeeper-library practice",
    whole=True,
    listed=1,
)


_POD_REQUESTS, _POD_LIMITS = cel.requests("variables.spec"), cel.limits("variables.spec")


def _named_cel(resource: str, requests: str, limits: str) -> str:
    return f'("{resource}" in {limits} || "{resource}" in {requests})'


def _by_a_container_cel(resource: str) -> str:
    named = _named_cel(resource, cel.requests("d"), cel.limits("d"))
    return f"variables.containers.exists(d, {named})"


_OWN, _WHOLE = (cel.REQUESTS, cel.LIMITS), (_POD_REQUESTS, _POD_LIMITS)
_CPU = (
    f"({_named_cel('cpu', *_OWN)} || {_named_cel('cpu', *_WHOLE)} || "
    f"(size({_POD_LIMITS}) > 0 && {_by_a_container_cel('cpu')}))"
)
_OWN_REQUEST = cel.effective('"memory"')
_OWN_MEMORY = (
    f'("memory" in {cel.LIMITS} && '
    f'quantity({_OWN_REQUEST}).compareTo(quantity({cel.LIMITS}["memory"])) == 0)'
)
_POD_LIMIT = cel.size(f'{_POD_LIMITS}["memory"]')
# In a pod, the API server has already added the request.
_WHOLE_MEMORY = (
    f'("memory" in {_POD_REQUESTS} ? {cel.size(f"""{_POD_REQUESTS}["memory"]""")} : '
    f"{_by_a_container_cel('memory')} ? variables.memoryRequest : {_POD_LIMIT}) == {_POD_LIMIT}"
)

_SIGN = Sign(
    f'!("cpu" in {cel.REQUESTS} && "memory" in {cel.LIMITS} && '
    f'{cel.REQUESTS}[?"memory"] == {cel.LIMITS}[?"memory"]) || has(object.spec.resources)',
    On.GPU_CONTAINER,
)

TWIN = pods(
    cel.each_container(
        f'!{_CPU} || !("memory" in {_POD_LIMITS} ? {_WHOLE_MEMORY} : {_OWN_MEMORY})',
        '"no request of cpu or memory, or memory without an equal limit"',
        "variables.gpuContainers",
    ),
    on_update=cel.SIZES_CHANGED,
    signs=(NAMES, CLAIMS, NO_LIMIT, _SIGN),
)

EXAMPLE = Example.edited(
    POD,
    ("\n        requests: {cpu: 4, memory: 32Gi}", ""),
)
