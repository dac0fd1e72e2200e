"""Rule GPU027: the name of a resource must be one that the API server accepts."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.names import is_container_resource
from ..each import each_container
from ..example import POD, Example, edited
from ..pod_spec import HAVE_RESOURCES, Container
from ..rule import Finding, Rule
from ..twin import ENFORCED

# Maximum number of characters of a name in a message.
_SHOWN = 80


def _check_names(container: Container, _: Context) -> Iterator[Finding]:
    for section, listed in (("limits", container.limits), ("requests", container.requests)):
        for name in sorted(listed):
            if not is_container_resource(name):
                yield Finding(
                    path=f"{container.path}.resources.{section}[{name[:_SHOWN]}]",
                    found="a name that the API server rejects",
                    wanted="cpu, memory, ephemeral-storage, hugepages-… or <domain>/<name>",
                    cure="Write the name that the device plugin advertises, such as "
                    "nvidia.com/gpu.",
                )


RULE = Rule(
    id="GPU027",
    title="The API server accepts the name of each resource",
    severity=Severity.MANDATORY,
    check=each_container(_check_names, HAVE_RESOURCES),
    why="Without a domain, the API server accepts only Kubernetes' own resources. With a "
    "domain, the name must have the form of a label key and must not begin with "
    "`requests.`, which quotas use.",
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
