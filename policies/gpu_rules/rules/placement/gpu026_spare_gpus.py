"""Rule GPU026: the update of a GPU Deployment should not need spare GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_pod, in_turn
from ..example import Example, deployment
from ..pod_request import gpu_requests
from ..pod_spec import Pod
from ..replicas import fenceposts
from ..rule import Finding, Rule, Subject
from ..twin import pods
from ..unknown import at


def _check_surge(_: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
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
            cure="Change the strategy: if all GPUs are in use, the new pod stays Pending and the "
            "update hangs.",
        )


def _check_new_cluster(_: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if (subject.group_version.rpartition("/")[0], subject.kind) != ("ray.io", "RayService"):
        return
    strategy = at(subject.manifest, "spec", "upgradeStrategy", "type")
    if strategy in (None, "NewCluster") and gpu_requests(subject, context):
        yield Finding(
            path="spec.upgradeStrategy.type",
            found="a new Ray cluster before the old one ends",
            wanted="None, or NewClusterWithIncrementalUpgrade",
            cure="Change the type: if all GPUs are in use, the new cluster stays Pending and the "
            "update hangs.",
        )


RULE = Rule(
    id="GPU026",
    title="An update of a GPU Deployment needs no free GPUs",
    severity=Severity.ADVISORY,
    check=in_turn(each_pod(_check_surge), each_pod(_check_new_cluster)),
    why="By default, an update starts a quarter more pods (rounded up) and may end a quarter of "
    "the old pods (rounded down, so none if there are fewer than four). Without free GPUs, "
    "the new pods stay Pending and the old pods are never replaced. If the sizes of the "
    "pools are known, GPU039 checks this instead. A change of a RayService starts a whole new Ray "
    "cluster. How an InferenceService is updated depends on the mode of its cluster, so the rule "
    "does not judge it.",
    source="kubernetes v1.34.4 pkg/apis/apps/v1/defaults.go SetDefaults_Deployment, "
    "pkg/controller/deployment/rolling.go reconcileOldReplicaSets; ray-project/kuberay "
    "ray-operator/apis/ray/v1 RayServiceUpgradeStrategy",
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
    deployment("strategy: {type: Recreate}"),
    ("strategy: {type: Recreate}", "strategy: {rollingUpdate: {maxSurge: 1}}"),
)
