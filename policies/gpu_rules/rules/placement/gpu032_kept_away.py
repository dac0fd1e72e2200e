"""Rule GPU032: a pod that requests no GPUs must not tolerate the taint of GPU nodes."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..agents import OF_DAEMON_SET, of_daemon_set
from ..each import each_pod
from ..example import Example, pod_without_gpus
from ..gpus import belongs_on_gpu_nodes
from ..pod_spec import Pod
from ..pools import hard_taints, reached, tolerates
from ..rule import Finding, Need, Rule, Subject
from ..signs import PLACED
from ..twin import pods
from ..unknown import UNKNOWN, holds_unknown, sequence


def _kept_away(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if (
        of_daemon_set(subject, context)
        or belongs_on_gpu_nodes(subject, context)
        or "tolerations" in pod.inherited
    ):
        # In a custom resource, several pods may inherit the tolerations of a mapping around them.
        # Such tolerations are meant for the pods that request GPUs, so they are no violation.
        return
    pools = reached(pod, context)
    taints = {str(taint): taint for pool in pools for taint in hard_taints(pool)}
    for index, toleration in enumerate(sequence(pod.spec.get("tolerations"))):
        if toleration is UNKNOWN or holds_unknown(toleration):
            continue
        for taint in taints.values():
            if tolerates(toleration, taint):
                yield Finding(
                    path=pod.under(f"spec.tolerations[{index}]"),
                    found=f"a toleration of {taint} in a pod that requests no GPU",
                    wanted="no toleration that matches the taint of the GPU nodes",
                    cure="Remove it, or name exactly the taint that is meant: the pod could use "
                    "cpu and memory that GPU workloads need.",
                )
                break


RULE = Rule(
    id="GPU032",
    title="A pod without GPUs does not tolerate the taint of the GPU nodes",
    severity=Severity.MANDATORY,
    check=each_pod(_kept_away, when=Subject.is_workload),
    why="With a toleration of the GPU taint, or of all taints, a pod without GPUs can use the "
    "cpu and memory that GPU workloads on the node need. The rule does not apply to pods "
    "with claims for devices (DRA) whose names do not speak of other devices, such as nic, and "
    "to what the stack trusts; nor to DaemonSets, as long as nobody declares which namespaces "
    "have node agents.",
    source="k8s.io/api v0.34.4 core/v1/toleration.go; NVIDIA k8s-device-plugin issue 68",
    needs=frozenset({Need.POOLS}),
    whole=True,
)

TWIN = pods(
    cel.in_workloads(
        f"!{OF_DAEMON_SET} && !variables.belongsOnGpuNodes ? variables.tolerations.filter(o, "
        f"variables.reachedPools.exists(p, {cel.POOL_TAINTS}.exists(t, {cel.tolerates('o', 't')})))"
        '.map(o, "found a toleration of GPU nodes: " + o.?key.orValue("every taint")) : []'
    ),
    on_update=cel.PLACE_CHANGED,
    signs=PLACED,
)

EXAMPLE = Example.edited(
    pod_without_gpus(("train", "web"), ("- name: cuda", "- name: web"), ("cuda:13.0", "web:1.0")),
    ("spec:", "spec:\n  tolerations: [{operator: Exists}]"),
)
