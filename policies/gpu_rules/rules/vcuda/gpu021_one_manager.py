"""Rule GPU021: a pod must not request GPUs from both NVIDIA's device plugin and gpu-manager."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import is_vcuda
from .. import cel
from ..each import each_pod
from ..example import POD, Example
from ..pod_spec import Pod
from ..rule import Finding, Need, Rule, Subject
from ..signs import NAMES
from ..twin import pods
from .asked import (
    NAMES_OF_VCUDA,
)


def _one_manager(pod: Pod, _: Subject, __: Context) -> Iterator[Finding]:
    names = {name for container in pod.containers for name in container.asked_names}
    nvidia = sorted(name for name in names if name.startswith("nvidia.com/"))
    tencent = sorted(filter(is_vcuda, names))
    if nvidia and tencent:
        yield Finding(
            path=pod.under("spec"),
            found=f"{nvidia[0]} and {tencent[0]} in one pod",
            wanted="GPUs from one device plugin",
            cure="Keep one of them: neither plugin knows the devices that the other has assigned.",
        )


RULE = Rule(
    id="GPU021",
    title="A pod gets its GPUs from one device plugin",
    severity=Severity.MANDATORY,
    check=each_pod(_one_manager),
    why="NVIDIA's device plugin and gpu-manager assign the same devices /dev/nvidiaN, and "
    "neither knows what the other has assigned.",
    source="tkestack gpu-manager pkg/services/allocator; NVIDIA k8s-device-plugin internal/rm",
    needs=frozenset({Need.GPU_MANAGER}),
)

_NVIDIA = cel.asks_for('n.startsWith("nvidia.com/")')

TWIN = pods(
    cel.unless_empty(
        f"variables.containers.exists(c, {_NVIDIA}) && "
        f"variables.containers.exists(c, {cel.asks_for(f'n in {NAMES_OF_VCUDA}')})",
        '"found nvidia.com and vcuda resources in one pod"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    POD,
    ("nvidia.com/gpu: 1", "nvidia.com/gpu: 1, tencent.com/vcuda-core: 100"),
    settings={"resourceNames": ["tencent.com/vcuda-core"]},
)
