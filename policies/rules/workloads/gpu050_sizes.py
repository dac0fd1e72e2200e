"""Rule GPU050: a container that requests GPUs should also request CPU and memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from .. import cel
from ..context import Context, Severity
from ..each import each_pod, gpu_containers
from ..example import POD, Example
from ..pod_spec import Container, Pod
from ..rule import Finding, Rule, Subject
from ..signs import CLAIMS, CLASSES, NAMES, On, Sign
from ..twin import pods
from ..unknown import UNKNOWN

_SIZES = ("cpu", "memory")


def _sized(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    """Yield one finding for all containers of an object: advice of this rule is the most common."""
    found = list(_each(pod, subject, context))
    if len(found) > 1:
        more = f"{found[0].found}, and {len(found) - 1} more such findings in this object"
        yield replace(found[0], found=more)
    else:
        yield from found


def _each(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    asking = [each for each in gpu_containers(subject, context) if _known(each)]
    whole = pod.resources
    if not asking or not _known(whole):
        return
    shared = {name for name in _SIZES if whole.effective(name)}
    for container in asking:
        yield from _missing(container, shared)
        if "memory" not in shared:
            yield from _unequal(container)
    if "memory" in shared:
        yield from _unequal(whole)


def _known(container: Container) -> bool:
    return container.requests_known and container.limits_known


def _missing(container: Container, shared: Collection[str]) -> Iterator[Finding]:
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


def _unequal(container: Container) -> Iterator[Finding]:
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
    check=each_pod(_sized),
    why="Without requests, the node fills with other pods, and the GPU waits for data. If "
    "memory has a limit above its request, or no limit, the container is one of the first that are "
    "killed when the node runs out of memory. Requests of the pod as a whole "
    "(spec.resources) count, too.",
    source="kubernetes v1.34.4 pkg/kubelet/qos; gatekeeper-library practice",
    whole=True,
)


_POD_REQUESTS, _POD_LIMITS = cel.requests("variables.spec"), cel.limits("variables.spec")


def _names(resource: str, requests: str, limits: str) -> str:
    return f'("{resource}" in {limits} || "{resource}" in {requests})'


def _unequal_cel(requests: str, limits: str) -> str:
    memory = f'quantity({requests}[?"memory"].orValue({limits}[?"memory"].orValue("0")))'
    return f'!("memory" in {limits}) || {memory}.compareTo(quantity({limits}["memory"])) != 0'


_OWN, _SHARED = (cel.REQUESTS, cel.LIMITS), (_POD_REQUESTS, _POD_LIMITS)

_SIGN = Sign(
    f'!("cpu" in {cel.REQUESTS} && "memory" in {cel.LIMITS} && '
    f'{cel.REQUESTS}[?"memory"] == {cel.LIMITS}[?"memory"]) || has(object.spec.resources)',
    On.GPU_CONTAINER,
)

TWIN = pods(
    cel.each_container(
        f"!({_names('cpu', *_OWN)} || {_names('cpu', *_SHARED)}) || "
        f"({_names('memory', *_SHARED)} ? ({_unequal_cel(*_SHARED)}) : "
        f"(!{_names('memory', *_OWN)} || {_unequal_cel(*_OWN)}))",
        '"no request of cpu or memory, or memory without an equal limit"',
        "variables.gpuContainers",
    ),
    on_update=cel.SIZES_CHANGED,
    signs=(NAMES, CLAIMS, CLASSES, _SIGN),
)

EXAMPLE = Example.edited(
    POD,
    ("\n        requests: {cpu: 4, memory: 32Gi}", ""),
)
