"""Rule GPU044: a pod may request MIG devices by name only if migStrategy is mixed."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Mig, PluginFacts, Severity
from ...kube.gpu_resources import GPU, MIG
from .. import cel
from ..each import each_container
from ..example import POD, Example
from ..pod_spec import Container
from ..rule import Finding, Need, Rule
from ..signs import NAMES
from ..twin import pods


def _mig_strategy(container: Container, context: Context) -> Iterator[Finding]:
    strategy = (context.plugin or PluginFacts()).mig
    if strategy is Mig.MIXED:
        return
    for name in sorted(container.asked_names):
        if name.startswith(MIG) and name not in context.resource_names:
            yield Finding(
                path=f"{container.path}.resources",
                found=name,
                wanted=f"{GPU}, the resource that migStrategy {strategy} advertises",
                cure="Request that resource, or set migStrategy: mixed in the plugin's "
                "configuration.",
            )


RULE = Rule(
    id="GPU044",
    title="MIG devices are requested by a name that nodes advertise",
    severity=Severity.MANDATORY,
    check=each_container(_mig_strategy),
    why="Only migStrategy mixed advertises nvidia.com/mig-<profile>. With single, every MIG "
    "device is a nvidia.com/gpu. With none, only whole GPUs are advertised.",
    source="NVIDIA k8s-device-plugin v0.20.0 README, MIG strategies; internal/resource",
    needs=frozenset({Need.PLUGIN}),
)

TWIN = pods(
    cel.each_container(
        'variables.facts[?"migByName"].orValue("") == "false" && '
        + cel.asks_for(
            f"n.startsWith({cel.text(MIG)}) && !(n in {cel.parameter('resourceNames')})"
        ),
        '"a MIG device by name"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    POD,
    ("32Gi, nvidia.com/gpu", "32Gi, nvidia.com/mig-1g.10gb"),
    settings={"plugin": {"migStrategy": "single"}},
)
