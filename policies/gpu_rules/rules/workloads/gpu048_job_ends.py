"""Rule GPU048: a GPU job should have a deadline and few retries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import Example
from ..pod_request import requests_gpus
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..twin import pods
from ..unknown import at, number, sequence

_MOST_RETRIES: Final = 10
_OF_ITS_POD: Final = ""
"""Place of a deadline that only the pods of a job can have."""
_PLACES: Final[Mapping[tuple[str, str], str]] = {
    ("batch", "Job"): "spec",
    ("batch", "CronJob"): "spec.jobTemplate.spec",
    # volcano-sh/apis pkg/apis/batch/v1alpha1 JobSpec has no deadline.
    ("batch.volcano.sh", "Job"): _OF_ITS_POD,
    # kubeflow/training-operator pkg/apis/kubeflow.org/v1 RunPolicy, of all its kinds of jobs.
    **{
        ("kubeflow.org", f"{kind}Job"): "spec.runPolicy"
        for kind in ("JAX", "MPI", "MX", "Paddle", "PyTorch", "TF", "XGBoost")
    },
    # ray-project/kuberay ray-operator/apis/ray/v1 RayJobSpec.
    ("ray.io", "RayJob"): "spec",
    # kubernetes-sigs/jobset api/jobset/v1alpha2: the jobs in it have the deadline.
    ("jobset.x-k8s.io", "JobSet"): _OF_ITS_POD,
    # argoproj/argo-workflows pkg/apis/workflow/v1alpha1 WorkflowSpec and Template.
    ("argoproj.io", "Workflow"): "spec",
    ("argoproj.io", "CronWorkflow"): "spec.workflowSpec",
}
"""Where the deadline of a job stands, by group and kind. A LeaderWorkerSet has none: it serves."""
# kubeflow/mpi-operator pkg/apis/kubeflow/v1alpha1 MPIJobSpec.
_OLD_PLACES: Final[Mapping[tuple[str, str], str]] = {("kubeflow.org/v1alpha1", "MPIJob"): "spec"}
"""Where the deadline stood in an older version of a kind."""
_DEADLINES: Final = (("activeDeadlineSeconds",), ("runPolicy", "activeDeadlineSeconds"))
_RETRIES: Final = (
    *(("backoffLimit",), ("runPolicy", "backoffLimit"), ("maxRetry",)),
    *(("retryStrategy", "limit"), ("failurePolicy", "maxRestarts")),
)
"""Fields of the mappings around a pod: Kubernetes, Kubeflow, Volcano, Argo Workflows, JobSet."""
_STEP: Final = re.compile(r"([^.\[]+)|\[([0-9]+)]")


def _check_deadline(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    place = _OLD_PLACES.get((subject.group_version, subject.kind))
    if place is None:
        place = _PLACES.get((subject.group_version.rpartition("/")[0], subject.kind))
    if place is None or not requests_gpus(subject, context):
        return
    around = list(_around(subject.manifest, pod.spec_path))
    deadlines = (at(value, *field) for _, value in around for field in _DEADLINES)
    if all(deadline is None for deadline in (*deadlines, pod.spec.get("activeDeadlineSeconds"))):
        yield Finding(
            path=f"{place or pod.spec_path}.activeDeadlineSeconds",
            found="none",
            wanted="a number of seconds",
            cure="Set a deadline: without it, a process that hangs occupies its GPUs until "
            "somebody ends it.",
        )
    for path, value in around:
        for field in _RETRIES:
            retries = _count(at(value, *field))
            if retries is not None and retries > _MOST_RETRIES:
                yield Finding(
                    path=".".join((path, *field)),
                    found=str(retries),
                    wanted=f"at most {_MOST_RETRIES}",
                    cure="Lower it: a failing program occupies its GPUs again for each retry.",
                )


def _around(manifest: Mapping[str, object], path: str) -> Iterator[tuple[str, object]]:
    """Yield each value on the way to a path in a manifest, with its path, the outermost first."""
    value: object = manifest
    for step in _STEP.finditer(path):
        value = (
            at(value, step[1]) if step[1] else dict(enumerate(sequence(value))).get(int(step[2]))
        )
        yield path[: step.end()], value


def _count(value: object) -> int | float | None:
    """Return a number of retries, which Argo Workflows also takes as text."""
    return int(value) if isinstance(value, str) and value.isdigit() else number(value)


RULE = Rule(
    id="GPU048",
    title="A GPU job has a deadline and few retries",
    severity=Severity.ADVISORY,
    check=each_pod(_check_deadline),
    why="A job without activeDeadlineSeconds occupies its GPUs for as long as its process "
    "hangs. With a high backoffLimit, it occupies them again after every failure. The rule reads "
    "Jobs and CronJobs, and the jobs of Volcano, Kubeflow, Ray, JobSet and Argo Workflows. A "
    "LeaderWorkerSet serves, so it has no end. A TrainJob may get its deadline from its runtime, "
    "which is another object, so the rule does not judge it.",
    source="kubernetes v1.34.4 pkg/controller/job; gatekeeper-library practice; "
    "volcano-sh/apis pkg/apis/batch/v1alpha1; kubeflow/training-operator pkg/apis/kubeflow.org/v1; "
    "kubeflow/trainer docs/proposals/2899-add-TTL; "
    "ray-project/kuberay ray-operator/apis/ray/v1; kubernetes-sigs/jobset api/jobset/v1alpha2; "
    "argoproj/argo-workflows pkg/apis/workflow/v1alpha1",
    whole=True,
)

TWIN = pods(
    "!variables.asksForGpus ? [] : ("
    + cel.unless_empty(
        "!has(variables.job.activeDeadlineSeconds) && !has(variables.spec.activeDeadlineSeconds)",
        '"found no activeDeadlineSeconds"',
    )
    + ") + ("
    + cel.unless_empty("variables.job.?backoffLimit.orValue(6) > 10", '"found a high backoffLimit"')
    + ")",
    "CronJob",
    "Job",
)

EXAMPLE = Example.edited(
    """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  activeDeadlineSeconds: 86400
  template:
    metadata: {labels: {app: train}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      restartPolicy: Never
      containers:
        - name: cuda
          image: registry.example.com/cuda:13.0
          resources:
            requests: {cpu: 4, memory: 32Gi}
            limits: {memory: 32Gi, nvidia.com/gpu: 1}
""",
    ("\n  activeDeadlineSeconds: 86400", ""),
)
