"""Rule GPU006: a container that requests a part of a GPU must also request vcuda-memory."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY
from .. import cel
from ..each import each_container
from ..example import POD, Example, edited
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods
from .asked import (
    BLOCKS_ASKED,
    CORES_ASKED,
)

_ALLOCATOR = "tkestack gpu-manager pkg/services/allocator/nvidia/allocator.go allocateOne"


def _memory_with_part(container: Container, _: Context) -> Iterator[Finding]:
    core, memory = container.effective(VCUDA_CORE), container.effective(VCUDA_MEMORY)
    if core is None or core.quantity is None or not 0 < core.quantity.units < 100:
        return
    missing = memory is None and container.limits_known and container.requests_known
    if missing or (memory and memory.quantity and memory.quantity.milli <= 0):
        yield Finding(
            path=f"{container.path}.resources.limits[{VCUDA_MEMORY}]",
            found="no memory" if memory is None else str(memory.quantity),
            wanted="1 or more (blocks of 256 MiB)",
            cure=f"Request {VCUDA_MEMORY}, too, in the same container.",
        )


RULE = Rule(
    id="GPU006",
    title="A container with a part of a GPU also requests vcuda-memory",
    severity=Severity.MANDATORY,
    check=each_container(_memory_with_part),
    why="If a container requests fewer than 100 cores, gpu-manager needs vcuda-memory in the "
    "same container. Otherwise the kubelet ends the pod with UnexpectedAdmissionError.",
    source=_ALLOCATOR,
    whole=True,
    needs=frozenset({Need.GPU_MANAGER}),
)

TWIN = pods(
    cel.each_container(
        f"{CORES_ASKED} > 0 && {CORES_ASKED} < 100 && {BLOCKS_ASKED} == 0",
        f'string({CORES_ASKED}) + " cores without memory"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    edited(
        POD,
        (
            "32Gi, nvidia.com/gpu: 1",
            "32Gi, tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 20",
        ),
    ),
    ("tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 20", "tencent.com/vcuda-core: 50"),
    settings={"platform": "gpu-manager"},
)
