"""Rule GPU018: a container that requests vcuda-memory must also request vcuda-core."""

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
    MEMORY_NAME,
)


def _core_with_memory(container: Container, _: Context) -> Iterator[Finding]:
    core, memory = container.effective(VCUDA_CORE), container.effective(VCUDA_MEMORY)
    is_known = container.limits_known and container.requests_known
    if memory is None or memory.quantity is None or memory.quantity.milli <= 0 or not is_known:
        return
    if core is None or (core.quantity is not None and core.quantity.milli == 0):
        yield Finding(
            path=memory.path,
            found=f"{memory.quantity} without {VCUDA_CORE}",
            wanted=f"{VCUDA_CORE} in the same container",
            cure=f"Request {VCUDA_CORE}, too: memory alone gets no device, without an error.",
        )


RULE = Rule(
    id="GPU018",
    title="A container that requests vcuda-memory also requests vcuda-core",
    severity=Severity.MANDATORY,
    check=each_container(_core_with_memory),
    why="A container that requests only vcuda-memory gets no device from gpu-manager, and no "
    "error.",
    source="tkestack gpu-manager pkg/server/vmemory.go Allocate",
    whole=True,
    needs=frozenset({Need.GPU_MANAGER}),
)

TWIN = pods(
    cel.each_container(
        f"{BLOCKS_ASKED} > 0 && {CORES_ASKED} == 0",
        f'string({cel.LIMITS}[{MEMORY_NAME}]) + " blocks of memory without cores"',
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
    (
        "limits: {memory: 32Gi, tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 20}",
        "limits: {memory: 32Gi, tencent.com/vcuda-memory: 20}",
    ),
    settings={"platform": "gpu-manager"},
)
