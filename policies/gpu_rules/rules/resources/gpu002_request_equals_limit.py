"""Rule GPU002: a GPU request must be equal to its limit."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import BY_CLASS
from ..each import each_amount
from ..example import Example, edited, pod, pod_of_several_gpus
from ..pod_spec import Container, Resource
from ..rule import Finding, Rule
from ..twin import ENFORCED
from . import VALIDATION


def _check_equal(request: Resource, container: Container, _: Context) -> Iterator[Finding]:
    limit = container.limits.get(request.name)
    if limit is None or request is limit or not (request.quantity and limit.quantity):
        return
    more = request.quantity.milli - limit.quantity.milli
    # Of the resource of a DeviceClass, a container may request less than its limit.
    if more > 0 or (more and not request.name.startswith(BY_CLASS)):
        yield Finding(
            path=request.path,
            found=f"{request.quantity}, but a limit of {limit.quantity}",
            wanted=f"{limit.quantity}, equal to the limit",
            cure="Remove the request: the limit is also the request.",
        )


RULE = Rule(
    id="GPU002",
    title="A GPU request equals its limit",
    severity=Severity.MANDATORY,
    check=each_amount(_check_equal, by_class=True),
    why="GPUs cannot be overcommitted: if a container has both a request and a limit, the API "
    "server rejects a request that differs from the limit.",
    source=f"{VALIDATION} validateResourceRequirements",
)

TWIN = ENFORCED

EXAMPLE = Example(
    passing=edited(
        pod_of_several_gpus("nvidia.com/gpu: 2"),
        ("cpu: 4, memory: 32Gi", "cpu: 4, memory: 32Gi, nvidia.com/gpu: 2"),
    ),
    failing=edited(
        pod(limits="nvidia.com/gpu: 2"),
        ("cpu: 4, memory: 32Gi", "cpu: 4, memory: 32Gi, nvidia.com/gpu: 1"),
    ),
)
