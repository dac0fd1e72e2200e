"""Rule GPU023: a container should not request more than one share of a shared GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_amount
from ..example import Example, pod, pod_of_several_gpus
from ..pod_spec import Container, Resource
from ..rule import Finding, Rule
from ..signs import NAMES
from ..twin import pods


def _one_share(resource: Resource, _: Container, context: Context) -> Iterator[Finding]:
    shared = resource.name in context.shared_resources
    if shared and resource.quantity and resource.quantity.units > 1:
        yield Finding(
            path=resource.path,
            found=str(resource.quantity),
            wanted="1",
            cure="Request one share or a whole GPU: more shares give no more compute time.",
        )


RULE = Rule(
    id="GPU023",
    title="A container requests only one share of a shared GPU",
    severity=Severity.ADVISORY,
    check=each_amount(_one_share),
    why="Two shares of a time-sliced GPU give no more compute time than one. With "
    "failRequestsGreaterThanOne, the kubelet ends the pod with UnexpectedAdmissionError.",
    source="NVIDIA k8s-device-plugin internal/rm/rm.go, api/config/v1/config.go",
)

TWIN = pods(
    cel.each_container(
        f"{cel.parameter('sharedResources')}.exists(n, {cel.asked('c', 'n')} > 1)",
        '"several shares of a GPU"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example(
    passing=pod(limits="nvidia.com/gpu.shared: 1"),
    failing=pod_of_several_gpus("nvidia.com/gpu.shared: 2"),
)
