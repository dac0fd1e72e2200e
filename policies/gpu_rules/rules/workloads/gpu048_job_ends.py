"""Rule GPU048: a GPU Job should have a deadline and few retries."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_object, each_pod
from ..example import Example
from ..pod_request import requests_gpus
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..twin import pods
from ..unknown import at, number

_JOBS = {"Job": ("spec",), "CronJob": ("spec", "jobTemplate", "spec")}

_MOST_RETRIES = 10


def _check_deadline(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    place = _JOBS[subject.kind]
    if pod.copies is not None or not requests_gpus(subject, context):
        return
    job = at(subject.manifest, *place)
    key = "activeDeadlineSeconds"
    if at(job, key) is None and pod.spec.get(key) is None:
        yield Finding(
            path=".".join((*place, key)),
            found="none",
            wanted="a number of seconds",
            cure="Set a deadline: without it, a process that hangs occupies its GPUs until "
            "somebody ends it.",
        )
    retries = number(at(job, "backoffLimit"))
    if retries is not None and retries > _MOST_RETRIES:
        yield Finding(
            path=".".join((*place, "backoffLimit")),
            found=str(retries),
            wanted=f"at most {_MOST_RETRIES}",
            cure="Lower it (default: 6): a failing program occupies its GPUs again for each retry.",
        )


RULE = Rule(
    id="GPU048",
    title="A GPU Job has a deadline and few retries",
    severity=Severity.ADVISORY,
    check=each_object(each_pod(_check_deadline), *_JOBS),
    why="A Job without activeDeadlineSeconds occupies its GPUs for as long as its process "
    "hangs. With a high backoffLimit, it occupies them again after every failure.",
    source="kubernetes v1.34.4 pkg/controller/job; gatekeeper-library practice",
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
