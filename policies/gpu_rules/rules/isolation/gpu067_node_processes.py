"""Rule GPU067: a pod that requests GPUs should not use hostPID."""

from __future__ import annotations

from collections.abc import Iterator

from .. import cel
from ..context import Context, Severity
from ..each import each_pod
from ..example import Example, pod
from ..gpus import gpus_of
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..signs import Sign
from ..twin import pods


def _node_processes(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if pod.spec.get("hostPID") is True and gpus_of(subject, context).may_have:
        yield Finding(
            path=pod.under("spec.hostPID"),
            found="true in a pod that requests GPUs",
            wanted="false, the default",
            cure="Remove it: the pod sees all processes of the node, and can end them as root.",
        )


RULE = Rule(
    id="GPU067",
    title="A pod that requests GPUs does not see the processes of its node",
    severity=Severity.ADVISORY,
    check=each_pod(_node_processes, when=Subject.is_workload),
    why="With hostPID, a container sees all processes of the node, also those of other GPU "
    "workloads. As root, it can end them and read their command lines. With one more "
    "capability, /proc/1/root is the file system of the node with all devices. This rule is "
    "only advice, because NVIDIA's own time-slicing example sets hostPID, although it does "
    "not need it.",
    source="Kubernetes documentation, Pod Security Standards (Baseline, Host Namespaces); "
    "proc(5), /proc/pid/root",
)

TWIN = pods(
    cel.in_workloads(
        cel.unless_empty(
            "variables.mayHaveGpus && variables.spec.?hostPID.orValue(false)",
            '"found hostPID in a pod that requests GPUs"',
        )
    ),
    signs=(Sign("object.spec.?hostPID.orValue(false)"),),
)

EXAMPLE = Example.edited(
    pod("shareProcessNamespace: true"),
    ("shareProcessNamespace", "hostPID"),
)
