"""Rule GPU043: a pod must request shared GPUs by the name that the device plugin advertises."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, PluginFacts, Severity, Sharing
from ...kube.gpu_resources import GPU, GPU_SHARED
from .. import cel
from ..each import each_container
from ..example import POD, Example, edited
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods


def _advertised_name(container: Container, context: Context) -> Iterator[Finding]:
    plugin = context.plugin or PluginFacts()
    shared = plugin.sharing is not Sharing.NONE and plugin.renamed
    wrong, right = (GPU, GPU_SHARED) if shared else (GPU_SHARED, GPU)
    if wrong in container.asked_names:
        yield Finding(
            path=f"{container.path}.resources",
            found=wrong,
            wanted=right,
            cure="Rename the resource: the plugin's renameByDefault decides what nodes advertise.",
        )


RULE = Rule(
    id="GPU043",
    title="A shared GPU is requested by its advertised name",
    severity=Severity.MANDATORY,
    check=each_container(_advertised_name),
    why="With renameByDefault, the device plugin advertises shared GPUs as "
    "nvidia.com/gpu.shared and advertises no nvidia.com/gpu. Without renameByDefault, it "
    "advertises only nvidia.com/gpu.",
    source="NVIDIA k8s-device-plugin v0.20.0 api/config/v1/replicas.go, internal/rm",
    needs=frozenset({Need.PLUGIN}),
)

_HIDDEN = cel.asks_for("n == variables.facts.notAdvertised")

TWIN = pods(
    cel.each_container(
        f'"notAdvertised" in variables.facts && {_HIDDEN}',
        "variables.facts.notAdvertised",
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    edited(POD, ("32Gi, nvidia.com/gpu", "32Gi, nvidia.com/gpu.shared")),
    ("32Gi, nvidia.com/gpu.shared", "32Gi, nvidia.com/gpu"),
    settings={"plugin": {"sharing": "time-slicing", "renameByDefault": True, "replicas": 4}},
)
