"""Rule GPU050: a container that requests GPUs should also request CPU and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .. import cel
from ..context import Context, Severity
from ..example import Example
from ..pod_spec import Container
from ..rule import Finding, Rule, Subject
from ..signs import CLAIMS, CLASSES, NAMES, On, Sign
from ..twin import pods
from ..unknown import UNKNOWN
from .containers import gpu_containers


def _sized(subject: Subject, context: Context) -> Iterator[Finding]:
    """Yield one finding for all containers of an object, because this is the most common advice."""
    found = list(filter(None, map(_sizes, gpu_containers(subject, context))))
    if len(found) > 1:
        more = f"{found[0].found}, and {len(found) - 1} more containers like it"
        yield replace(found[0], found=more)
    else:
        yield from found


def _sizes(container: Container) -> Finding | None:
    if not (container.requests_known and container.limits_known):
        return None
    missing = [name for name in ("cpu", "memory") if container.effective(name) is None]
    if missing:
        return Finding(
            path=f"{container.path}.resources.requests[{missing[0]}]",
            found="no request of " + " and ".join(missing),
            wanted="requests of cpu and memory",
            cure="Without them others may leave the GPU waiting for cpu or memory.",
            container=container.name,
        )
    request, limit = container.effective("memory"), container.limits.get("memory")
    if request and request.quantity and not (limit and limit.amount is UNKNOWN):
        given = limit.quantity.milli if limit and limit.quantity else None
        if given != request.quantity.milli:
            return Finding(
                path=f"{container.path}.resources.limits[memory]",
                found=str(limit.quantity) if limit and limit.quantity else "none",
                wanted=f"{request.quantity}, equal to the request",
                cure="Memory beyond the request is reclaimed by ending the process.",
                container=container.name,
            )
    return None


RULE = Rule(
    id="GPU050",
    title="A GPU container asks for cpu and memory",
    severity=Severity.ADVISORY,
    check=_sized,
    why="Without requests its node fills with others, and the GPU waits for data. Memory with "
    "a limit above its request is the first to be ended when the node runs short.",
    source="kubernetes v1.34.4 pkg/kubelet/qos; gatekeeper-library practice",
    whole=True,
)


def _names_cel(resource: str) -> str:
    return f'("{resource}" in {cel.LIMITS} || "{resource}" in {cel.REQUESTS})'


_MEMORY = f'quantity({cel.REQUESTS}[?"memory"].orValue({cel.LIMITS}[?"memory"].orValue("0")))'

_SIGN = Sign(
    f'!("cpu" in {cel.REQUESTS} && "memory" in {cel.LIMITS} && '
    f'{cel.REQUESTS}[?"memory"] == {cel.LIMITS}[?"memory"])',
    On.GPU_CONTAINER,
)

TWIN = pods(
    cel.each_container(
        f"!{_names_cel('cpu')} || !{_names_cel('memory')} || "
        f'!("memory" in {cel.LIMITS}) || '
        f'{_MEMORY}.compareTo(quantity({cel.LIMITS}["memory"])) != 0',
        '"no request of cpu or memory, or memory without an equal limit"',
        "variables.gpuContainers",
    ),
    on_update=cel.SIZES_CHANGED,
    signs=(NAMES, CLAIMS, CLASSES, _SIGN),
)

EXAMPLE = Example(
    passing="""\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      resources:
        requests: {cpu: 4, memory: 32Gi}
        limits: {memory: 32Gi, nvidia.com/gpu: 1}
""",
    failing="""\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - name: cuda
      image: registry.example.com/cuda:13.0
      resources:
        limits: {memory: 32Gi, nvidia.com/gpu: 1}
""",
)
