"""Rule GPU003: a GPU request must have a limit."""

from __future__ import annotations

from collections.abc import Iterator

from ..context import Context, Severity
from ..example import POD, Example
from ..rule import Finding, Rule, Subject
from ..twin import (
    ENFORCED,
)
from .amounts import VALIDATION, entries


def _limited(subject: Subject, _: Context) -> Iterator[Finding]:
    for container, request in entries(subject):
        if container.limits_known and request.name not in container.limits:
            asked = str(request.quantity) if request.quantity else "a request"
            yield Finding(
                path=request.path,
                found=f"{asked} without a limit",
                wanted=f"limits[{request.name}] with the same value",
                cure="Move the entry from requests to limits.",
                container=container.name,
            )


RULE = Rule(
    id="GPU003",
    title="A GPU request has a limit",
    severity=Severity.MANDATORY,
    check=_limited,
    why="A limit alone is enough, because it counts as the request; a request alone is "
    "refused: limits must be set for resources that cannot be overcommitted.",
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
