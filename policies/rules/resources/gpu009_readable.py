"""Rule GPU009: an amount of GPUs must be a valid Kubernetes quantity."""

from __future__ import annotations

from collections.abc import Iterator

from ..context import Context, Severity
from ..example import POD, Example
from ..rule import Finding, Rule, Subject
from ..twin import (
    ENFORCED,
)
from .amounts import all_amounts


def _readable(subject: Subject, _: Context) -> Iterator[Finding]:
    for container, resource in all_amounts(subject):
        if resource.amount is None:
            yield Finding(
                path=resource.path,
                found=f"a value that is not a quantity ({resource.error})",
                wanted="a whole number such as 1",
                cure="Write the number of devices in digits, without a unit.",
                container=container,
            )


RULE = Rule(
    id="GPU009",
    title="A GPU quantity can be read",
    severity=Severity.MANDATORY,
    check=_readable,
    why="The API server cannot decode an object with a value such as 0x8 or two in the place "
    "of a quantity. Exponents beyond 1,000 are refused here only: no node has as many devices.",
    source="k8s.io/apimachinery v0.34.4 pkg/api/resource/quantity.go ParseQuantity",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    POD,
    ("nvidia.com/gpu: 1", "nvidia.com/gpu: one"),
)
