"""Rule GPU003: a GPU request must have a limit."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_amount
from ..example import POD, Example
from ..pod_spec import Container, Resource
from ..rule import Finding, Rule
from ..twin import ENFORCED
from . import VALIDATION


def _check_limit(request: Resource, container: Container, _: Context) -> Iterator[Finding]:
    if container.limits_known and request.name not in container.limits:
        amount = str(request.quantity) if request.quantity else "a request"
        yield Finding(
            path=request.path,
            found=f"{amount} without a limit",
            wanted=f"limits[{request.name}] with the same value",
            cure="Move the entry from requests to limits.",
        )


RULE = Rule(
    id="GPU003",
    title="A GPU request has a limit",
    severity=Severity.MANDATORY,
    check=each_amount(_check_limit),
    why="A limit alone is enough, because it is also the request. The API server rejects a "
    "request alone, because resources that cannot be overcommitted need a limit.",
    source=f"{VALIDATION} validateResourceRequirements",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    POD,
    (
        "requests: {cpu: 4, memory: 32Gi}\n        limits: {memory: 32Gi, nvidia.com/gpu: 1}",
        "requests: {cpu: 4, memory: 32Gi, nvidia.com/gpu: 1}\n        limits: {memory: 32Gi}",
    ),
)
