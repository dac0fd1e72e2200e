"""Rule GPU024: a DaemonSet should not request GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.quantity import show
from .. import cel
from ..each import each_object, each_pod
from ..example import Example, deployment
from ..pod_request import claim_requests, resource_requests
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..twin import pods


def _check_daemon_set(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    amounts = resource_requests(pod, context) | claim_requests(subject, context, held=True)
    for name, amount in amounts.items():
        yield Finding(
            path=pod.under("spec"),
            found=f"{show(amount)} {name} in a DaemonSet",
            wanted="no GPUs",
            cure="Use a Deployment or a Job: a DaemonSet occupies GPUs on every node.",
        )


RULE = Rule(
    id="GPU024",
    title="A DaemonSet requests no GPUs",
    severity=Severity.ADVISORY,
    check=each_object(each_pod(_check_daemon_set), "DaemonSet"),
    why="Each pod of the DaemonSet occupies GPUs of its node for as long as the DaemonSet exists.",
    source="kubernetes v1.34.4 pkg/controller/daemon",
)

TWIN = pods(cel.unless_empty("variables.asksForGpus", '"found GPUs in a DaemonSet"'), "DaemonSet")

EXAMPLE = Example.edited(
    deployment("strategy: {type: Recreate}"),
    ("kind: Deployment", "kind: DaemonSet"),
    ("\n  strategy: {type: Recreate}", ""),
)
