"""Rule GPU027: the name of a resource must be one that the API server accepts."""

from __future__ import annotations

from collections.abc import Iterator

from ..context import Context, Severity
from ..each import each_container
from ..example import POD, Example, edited
from ..pod_spec import HAVE_RESOURCES, Container
from ..resource_names import acceptable
from ..rule import Finding, Rule
from ..twin import (
    ENFORCED,
)

# Maximum number of characters of a name in a message.
_SHOWN = 80


def _accepted(container: Container, _: Context) -> Iterator[Finding]:
    for part, listed in (("limits", container.limits), ("requests", container.requests)):
        for name in sorted(listed):
            if not acceptable(name):
                yield Finding(
                    path=f"{container.path}.resources.{part}[{name[:_SHOWN]}]",
                    found="a name that the API server refuses",
                    wanted="cpu, memory, ephemeral-storage, hugepages-… or <domain>/<name>",
                    cure="Write it as the device plugin advertises it, such as nvidia.com/gpu.",
                )


RULE = Rule(
    id="GPU027",
    title="A resource name is one that the API server takes",
    severity=Severity.MANDATORY,
    check=each_container(_accepted, HAVE_RESOURCES),
    why="Without a domain only Kubernetes' own resources are taken; with one, the name must "
    "follow the form of labels and not begin with `requests.`, which belongs to quotas.",
    source="kubernetes v1.34.4 pkg/apis/core/validation/validation.go "
    "validateContainerResourceName; pkg/apis/core/helper/helpers.go IsExtendedResourceName",
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    edited(
        POD,
        ("\n  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]", ""),
        ("32Gi, nvidia.com/gpu", "32Gi, example.com/fpga"),
    ),
    ("32Gi, example.com/fpga", "32Gi, requests.example.com/fpga"),
)
