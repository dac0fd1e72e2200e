"""Rule GPU067: a pod that requests GPUs must not use namespaces of its node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import Example, pod
from ..gpus import gpus_of
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..signs import Sign
from ..twin import pods

NAMESPACES: Final = ("hostIPC", "hostNetwork", "hostPID")


def _of_the_node(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    named = [name for name in NAMESPACES if pod.spec.get(name) is True]
    if named and gpus_of(subject, context).may_have:
        for name in named:
            yield Finding(
                path=pod.under(f"spec.{name}"),
                found="true in a pod that requests GPUs",
                wanted="false, the default",
                cure="Remove it: the pod reaches processes, memory or local services of the node "
                "and of other pods.",
                is_opinion=True,
            )


RULE = Rule(
    id="GPU067",
    title="A pod that requests GPUs does not use namespaces of its node",
    severity=Severity.MANDATORY,
    check=each_pod(_of_the_node, when=Subject.is_workload),
    opinions="all findings",
    why="With hostPID, a container sees all processes of the node, also those of other GPU "
    "workloads; as root, it can end them, and /proc/1/root is the file system of the node. With "
    "hostIPC, it shares the memory of other pods. With hostNetwork, it reaches what listens only "
    "on the node itself, such as DCGM, which controls all GPUs. The Pod Security Standard "
    "baseline forbids the three, too. Where jobs need the network of the node, make the rule "
    "advice or exempt their namespace.",
    source="k8s.io/pod-security-admission policy/check_hostNamespaces.go; proc(5), /proc/pid/root",
)

TWIN = pods(
    cel.in_workloads(
        "!variables.mayHaveGpus ? [] : ["
        + ", ".join(f'variables.spec.?{name}.orValue(false) ? "{name}" : ""' for name in NAMESPACES)
        + '].filter(n, n != "").map(n, "found " + n + " in a pod that requests GPUs")'
    ),
    signs=(Sign(" || ".join(f"object.spec.?{name}.orValue(false)" for name in NAMESPACES)),),
)

EXAMPLE = Example.edited(
    pod("shareProcessNamespace: true"),
    ("shareProcessNamespace", "hostPID"),
)
