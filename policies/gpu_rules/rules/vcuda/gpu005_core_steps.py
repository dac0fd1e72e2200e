"""Rule GPU005: an amount of vcuda-core must be 0 to 100 or a multiple of 100."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import VCUDA_CORE
from .. import cel
from ..each import each_container
from ..example import POD, Example, edited
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods
from .asked import (
    CORE_NAME,
    CORES_ASKED,
)

_ALLOCATOR = "tkestack gpu-manager pkg/services/allocator/nvidia/allocator.go allocateOne"


def _core_steps(container: Container, _: Context) -> Iterator[Finding]:
    core = container.effective(VCUDA_CORE)
    if core is None or core.quantity is None or not core.quantity.whole:
        return
    units = core.quantity.units
    if units > 100 and units % 100:
        yield Finding(
            path=core.path,
            found=str(core.quantity),
            wanted="1 to 100, or a multiple of 100",
            cure="Request a part of one GPU or whole GPUs: 100 is one GPU.",
        )


RULE = Rule(
    id="GPU005",
    title="vcuda-core is 1 to 100 or a multiple of 100",
    severity=Severity.MANDATORY,
    check=each_container(_core_steps),
    why="100 cores are one GPU, and 0 requests none. gpu-manager gives a container a part of "
    "one GPU or several whole GPUs. The API server and the scheduler accept 150, and then "
    "the kubelet ends the pod with UnexpectedAdmissionError.",
    source=_ALLOCATOR,
    needs=frozenset({Need.GPU_MANAGER}),
)

TWIN = pods(
    cel.each_container(
        f"{CORES_ASKED} > 100 && !{cel.hundreds(f'{cel.LIMITS}[{CORE_NAME}]')}",
        f"string({cel.LIMITS}[{CORE_NAME}])",
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    edited(POD, ("32Gi, nvidia.com/gpu: 1", "32Gi, tencent.com/vcuda-core: 200")),
    ("tencent.com/vcuda-core: 200", "tencent.com/vcuda-core: 150"),
    settings={"platform": "gpu-manager"},
)
