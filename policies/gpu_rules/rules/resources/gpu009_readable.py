"""Rule GPU009: an amount of GPUs must be a valid Kubernetes quantity."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Severity
from ..each import each_amount_or_quota
from ..example import POD, Example
from ..pod_spec import Resource
from ..rule import Finding, Rule
from ..twin import ENFORCED


def _check_readable(resource: Resource) -> Iterator[Finding]:
    if resource.amount is None:
        yield Finding(
            path=resource.path,
            found=f"a value that is not a quantity ({resource.error})",
            wanted="a whole number such as 1",
            cure="Write the number of devices as digits without a unit.",
        )


RULE = Rule(
    id="GPU009",
    title="A GPU amount is a valid quantity",
    severity=Severity.MANDATORY,
    check=each_amount_or_quota(_check_readable),
    why="The API server cannot decode an object with a value such as 0x8 or `two` in place of a "
    "quantity. It accepts exponents above 1,000; this rule does not, because no node has so "
    "many devices.",
    source="k8s.io/apimachinery v0.34.4 pkg/api/resource/quantity.go ParseQuantity",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    POD,
    ("nvidia.com/gpu: 1", "nvidia.com/gpu: one"),
)
