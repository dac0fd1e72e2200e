"""Rule GPU061: HAMi's resource nvidia.com/gpumem-percentage must be at most 100."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import HAMI_PERCENTAGE
from .. import cel
from ..each import each_container
from ..example import POD, Example, edited
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods


def _check_percentage(container: Container, _: Context) -> Iterator[Finding]:
    resource = container.effective(HAMI_PERCENTAGE)
    if resource and resource.quantity and resource.quantity.units > 100:
        yield Finding(
            path=resource.path,
            found=str(resource.quantity),
            wanted="0 to 100",
            cure="Lower it: it is a percentage of each device's memory. For MiB use "
            "nvidia.com/gpumem.",
        )


RULE = Rule(
    id="GPU061",
    title="gpumem-percentage is 0 to 100",
    severity=Severity.MANDATORY,
    check=each_container(_check_percentage),
    why="It is a percentage of each device's memory. HAMi's webhook rejects a percentage above "
    "100; without the webhook, HAMi's scheduler treats it as 100.",
    source="Project-HAMi HAMi 4707fb02 pkg/device/nvidia/device.go validateMemoryPercentage, "
    "GenerateResourceRequests",
    needs=frozenset({Need.HAMI}),
)

TWIN = pods(
    cel.each_container(
        f"{cel.asked('c', cel.text(HAMI_PERCENTAGE))} > 100",
        f"string({cel.asked('c', cel.text(HAMI_PERCENTAGE))})",
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    edited(POD, ("nvidia.com/gpu: 1", "nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 50")),
    ("nvidia.com/gpumem-percentage: 50", "nvidia.com/gpumem-percentage: 150"),
    settings={"platform": "hami"},
)
