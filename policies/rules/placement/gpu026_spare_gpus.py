"""Rule GPU026: the update of a GPU Deployment should not need spare GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from .. import cel
from ..context import Context, Severity
from ..each import each_pod
from ..example import Example
from ..pod_request import gpu_requests
from ..pod_spec import Pod
from ..replicas import fenceposts
from ..rule import Finding, Rule, Subject
from ..twin import pods


def _surge(_: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    posts = fenceposts(subject)
    if posts is None or posts.unavailable > 0 or posts.replicas == 0:
        return
    if any(pool.nodes is not None for pool in context.pools):
        # If the pool sizes are known, rule GPU039 checks whether the update fits.
        return
    if gpu_requests(subject, context):
        yield Finding(
            path="spec.strategy",
            found=f"{posts.surge} new pods before an old one of {posts.replicas} ends",
            wanted="type Recreate, or rollingUpdate.maxSurge 0",
            cure="With all GPUs in use the new pod stays Pending and the update hangs.",
        )


RULE = Rule(
    id="GPU026",
    title="An update of a GPU Deployment needs no spare GPUs",
    severity=Severity.ADVISORY,
    check=each_pod(_surge),
    why="By default a quarter more pods start first (rounded up) and a quarter of the old ones "
    "may end (rounded down: none below four replicas). Without free GPUs the new ones stay "
    "Pending and the old ones are never replaced. With known pool sizes GPU039 decides.",
    source="kubernetes v1.34.4 pkg/apis/apps/v1/defaults.go SetDefaults_Deployment, "
    "pkg/controller/deployment/rolling.go reconcileOldReplicaSets",
    whole=True,
)

TWIN = pods(
    cel.unless_empty(
        'variables.facts.sizesKnown == "false" && variables.asksForGpus && '
        "variables.surges && variables.replicas > 0",
        '"found an update that starts new pods before it ends old ones"',
    ),
    "Deployment",
)

EXAMPLE = Example.edited(
    """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  strategy: {type: Recreate}
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      containers:
        - name: cuda
          image: registry.example.com/cuda:13.0
          resources:
            requests: {cpu: 4, memory: 32Gi}
            limits: {memory: 32Gi, nvidia.com/gpu: 1}
""",
    ("strategy: {type: Recreate}", "strategy: {rollingUpdate: {maxSurge: 1}}"),
)
