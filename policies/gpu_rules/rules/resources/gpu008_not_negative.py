"""Rule GPU008: an amount of GPUs must not be negative."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Severity
from ..each import each_amount_or_quota
from ..example import POD, Example
from ..pod_spec import Resource
from ..rule import Finding, Rule
from ..twin import ENFORCED
from . import VALIDATION


def _not_negative(resource: Resource) -> Iterator[Finding]:
    if resource.quantity and resource.quantity.milli < 0:
        yield Finding(
            path=resource.path,
            found=str(resource.quantity),
            wanted="0 or more",
            cure="Remove the minus sign, or the entry if no device is needed.",
        )


RULE = Rule(
    id="GPU008",
    title="A GPU quantity is not negative",
    severity=Severity.MANDATORY,
    check=each_amount_or_quota(_not_negative),
    why="The API server rejects quantities below 0, in containers and in quotas.",
    source=f"{VALIDATION} ValidateNonnegativeQuantity, ValidateResourceQuotaSpec",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    POD,
    ("nvidia.com/gpu: 1", "nvidia.com/gpu: -1"),
)
