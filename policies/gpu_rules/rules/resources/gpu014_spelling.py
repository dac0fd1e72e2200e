"""Rule GPU014: the name of a GPU resource must be spelled as the device plugin advertises it."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_container
from ..example import POD, Example
from ..pod_spec import Container
from ..resource_names import meant
from ..rule import Finding, Rule
from ..twin import NoTwin


def _check_spelling(container: Container, context: Context) -> Iterator[Finding]:
    for name in sorted(container.resource_names):
        right = meant(name, context)
        if right is not None:
            section = "limits" if name in container.limits else "requests"
            yield Finding(
                path=f"{container.path}.resources.{section}[{name}]",
                found=name,
                wanted=right,
                cure="Correct the name: no device plugin advertises it, so the pod would stay "
                "Pending.",
            )


RULE = Rule(
    id="GPU014",
    title="GPU resources have the names that nodes advertise",
    severity=Severity.MANDATORY,
    check=each_container(_check_spelling),
    why="The API server accepts any qualified name. It even treats "
    "alpha.kubernetes.io/nvidia-gpu as a native resource, which needs no limit and no whole "
    "number. No node advertises such a resource, so the pod stays Pending forever.",
    source="kubernetes v1.34.4 pkg/apis/core/helper/helpers.go IsNativeResource; NVIDIA "
    "k8s-device-plugin internal/resource (MIG names)",
)

TWIN = NoTwin(
    "It finds names that resemble a known one, which takes a measure of likeness; CEL has none."
)

EXAMPLE = Example.edited(
    POD,
    ("\n  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]", ""),
    ("32Gi, nvidia.com/gpu", "32Gi, alpha.kubernetes.io/nvidia-gpu"),
)
