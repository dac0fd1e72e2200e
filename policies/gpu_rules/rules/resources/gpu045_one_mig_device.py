"""Rule GPU045: a container should not request more than one MIG device."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import MIG
from ...kube.quantity import show
from .. import cel
from ..each import each_container
from ..example import Example, pod, pod_of_several_gpus
from ..pod_spec import Container
from ..rule import Finding, Rule
from ..signs import NAMES
from ..twin import pods


def _one_mig(container: Container, _: Context) -> Iterator[Finding]:
    mig_requests = [
        resource
        for name in sorted(container.resource_names)
        if name.startswith(MIG) and (resource := container.effective(name))
    ]
    total = sum(request.quantity.units for request in mig_requests if request.quantity)
    if total > 1:
        yield Finding(
            path=mig_requests[0].path,
            found=f"{show(total)} MIG devices in one container",
            wanted="1",
            cure="Use a larger MIG profile, or one container for each device.",
        )


RULE = Rule(
    id="GPU045",
    title="A container requests one MIG device",
    severity=Severity.ADVISORY,
    check=each_container(_one_mig),
    why="A CUDA process sees only one MIG device; further devices are occupied and stay idle.",
    source="NVIDIA MIG user guide, CUDA device enumeration; k8s-device-plugin v0.7.0 notes",
)

_MIGS = f"{cel.LIMITS}.filter(n, n.startsWith({cel.text(MIG)}))"

TWIN = pods(
    cel.each_container(
        f"{_MIGS}.map(n, {cel.asked('c', 'n')}).sum() > 1",
        f'string({_MIGS}.map(n, {cel.asked("c", "n")}).sum()) + " MIG devices"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example(
    passing=pod(limits="nvidia.com/mig-3g.40gb: 1"),
    failing=pod_of_several_gpus("nvidia.com/mig-1g.10gb: 3"),
)
