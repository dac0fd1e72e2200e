"""Rule GPU079: a privileged pod that requests no GPUs should keep away from GPU nodes."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_container
from ..example import Example
from ..gpus import gpus_of
from ..pod_spec import Container
from ..rule import Declared, Finding, Need, Rule, Subject
from ..signs import On, Sign
from ..twin import pods
from .gpu022_not_privileged import PRIVILEGED
from .gpu036_host_paths import NEAR_GPUS, on_gpu_nodes
from .privileged import IS_PRIVILEGED, privileged


def _is_near_gpus(subject: Subject, context: Context) -> bool:
    pod = subject.pod
    return (
        pod is not None
        and subject.is_workload(context)
        and gpus_of(subject, context).may_lack
        and on_gpu_nodes(subject, pod, context)
    )


def _check_privileged(container: Container, _: Context) -> Iterator[Finding]:
    yield from privileged(container, "can run on GPU nodes", "false, or nodes without GPUs")


RULE = Rule(
    id="GPU079",
    title="A privileged container without GPUs doesn't run on GPU nodes",
    severity=Severity.ADVISORY,
    mandatory_if=Declared.TRUST,
    check=each_container(_check_privileged, when=_is_near_gpus),
    why="A privileged container sees all devices of its node, whatever it requests. If it "
    "tolerates the taint of the GPU nodes, or if the GPU nodes have no taint, it reaches "
    "GPUs that belong to other pods. Node agents are often privileged, so the rule is advice as "
    "long as nobody declares which namespaces have such agents; then it is mandatory in all "
    "others.",
    source="kubernetes issue 81256",
    needs=frozenset({Need.POOLS}),
    whole=True,
)

TWIN = pods(
    cel.in_workloads(
        f"variables.hasGpus || !{NEAR_GPUS} ? [] : "
        + cel.each_container(IS_PRIVILEGED, '"privileged, near GPUs"', "variables.judged")
    ),
    ephemeral=True,
    on_update=cel.PLACE_CHANGED,
    signs=(Sign(PRIVILEGED, On.CONTAINER),),
)

EXAMPLE = Example.edited(
    """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: monitoring}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
        - name: agent
          image: registry.example.com/agent:1.0
          securityContext: {privileged: true}
""",
    (
        "    spec:\n      containers:",
        "    spec:\n      tolerations: [{operator: Exists}]\n      containers:",
    ),
)
