"""Rule GPU032: a pod that requests no GPUs must not tolerate the taint of GPU nodes."""

from __future__ import annotations

from collections.abc import Iterator

from .. import cel
from ..asking import MAY_ASK, may_ask
from ..context import Context, Severity
from ..example import Example
from ..pools import gpu_pools, hard_taints, tolerates
from ..rule import Finding, Need, Rule, Subject
from ..signs import PLACED
from ..twin import pods
from ..unknown import UNKNOWN, at, holds_unknown, sequence


def _kept_away(subject: Subject, context: Context) -> Iterator[Finding]:
    pod = subject.pod
    if pod is None or _of_daemon_set(subject) or not subject.is_workload(context):
        return
    if may_ask(pod, context):
        return
    taints = {str(taint): taint for pool in gpu_pools(context) for taint in hard_taints(pool)}
    for index, toleration in enumerate(sequence(pod.spec.get("tolerations"))):
        if toleration is UNKNOWN or holds_unknown(toleration):
            continue
        for taint in taints.values():
            if tolerates(toleration, taint):
                yield Finding(
                    path=pod.under(f"spec.tolerations[{index}]"),
                    found=f"a toleration of {taint} in a pod that asks for no GPU",
                    wanted="none that covers the taint of the GPU nodes",
                    cure="Remove it, or name the one taint that is meant: the pod would take "
                    "cpu and memory from GPU work.",
                )
                break


def _of_daemon_set(subject: Subject) -> bool:
    """Return whether the object is a DaemonSet or may be a pod of a DaemonSet."""
    owners = at(subject.manifest, "metadata", "ownerReferences")
    return (
        subject.kind == "DaemonSet"
        or owners is UNKNOWN
        or any(
            holds_unknown(owner)
            or (at(owner, "kind") == "DaemonSet" and at(owner, "controller") is True)
            for owner in sequence(owners)
        )
    )


RULE = Rule(
    id="GPU032",
    title="Work without GPUs keeps away from GPU nodes",
    severity=Severity.MANDATORY,
    check=_kept_away,
    why="A toleration of the GPU taint, also one of every taint, lets a pod without GPUs take "
    "the cpu and memory that GPU work on that node needs. Pods with claims for devices (DRA), "
    "DaemonSets and the namespaces of the GPU stack are free to.",
    source="k8s.io/api v0.34.4 core/v1/toleration.go; NVIDIA k8s-device-plugin issue 68",
    needs=frozenset({Need.POOLS}),
    whole=True,
)

# Every user can write an owner reference into a pod, so a pod counts as a DaemonSet's only if the
# DaemonSet controller creates it.
_NOT_OF_DAEMON_SET = (
    'dyn(object).kind != "DaemonSet" && '
    f"!(request.userInfo.username in {cel.parameter('daemonSetControllers')} && "
    'object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == "DaemonSet" && '
    "o.?controller.orValue(false)))"
)

TWIN = pods(
    cel.in_workloads(
        f"{_NOT_OF_DAEMON_SET} && !{MAY_ASK} ? variables.tolerations.filter(o, "
        f"variables.taints.exists(t, {cel.tolerates('o', 't')}))"
        '.map(o, "found a toleration of GPU nodes: " + o.?key.orValue("every taint")) : []'
    ),
    on_update=cel.PLACE_CHANGED,
    signs=PLACED,
)

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
    - name: web
      image: registry.example.com/web:1.0
      resources:
        requests: {cpu: 4, memory: 32Gi}
        limits: {memory: 32Gi}
""",
    ("spec:", "spec:\n  tolerations: [{operator: Exists}]"),
)
