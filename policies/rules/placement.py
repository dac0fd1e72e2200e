"""How a workload with GPUs is placed."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.pod_request import gpu_requests
from policies.rules.replicas import fenceposts
from policies.rules.resource_names import GPU, VCUDA_CORE, VCUDA_MEMORY
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import text

_NVIDIA_PLATFORMS = frozenset({"device-plugin", "gpu-operator"})


def _scheduled(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod and text(subject.pod.spec.get("nodeName")):
        for name in gpu_requests(subject.pod, context):
            yield Finding(
                path=subject.pod.under("spec.nodeName"),
                found=f"a fixed node for a pod that asks for {name}",
                wanted="no nodeName",
                cure="Use nodeSelector: the scheduler is what counts free GPUs.",
            )
            return


def _advertised(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None or context.platform is None:
        return
    foreign = {VCUDA_CORE, VCUDA_MEMORY} if context.platform in _NVIDIA_PLATFORMS else {GPU}
    for container in subject.pod.containers:
        for name in sorted((foreign & container.resource_names) - context.resource_names):
            yield Finding(
                path=f"{container.path}.resources",
                found=name,
                wanted=f"a resource that {context.platform} advertises",
                cure="Without a node that has it, the pod stays Pending.",
                container=container.name,
            )


def _surge(subject: Subject, context: Context) -> Iterator[Finding]:
    posts = fenceposts(subject)
    if subject.pod is None or posts is None or posts.unavailable > 0 or posts.replicas == 0:
        return
    if any(pool.nodes is not None for pool in context.pools):
        return  # GPU039 knows how much room there is
    if gpu_requests(subject.pod, context):
        yield Finding(
            path="spec.strategy",
            found=f"{posts.surge} new pods before an old one of {posts.replicas} ends",
            wanted="type Recreate, or rollingUpdate.maxSurge 0",
            cure="With all GPUs in use the new pod stays Pending and the update hangs.",
        )


RULES = (
    Rule(
        id="GPU015",
        title="The cluster's platform advertises the GPU resource",
        severity=Severity.ADVISORY,
        check=_advertised,
        why="NVIDIA's device plugin advertises nvidia.com/gpu, gpu-manager advertises "
        "tencent.com/vcuda-core and vcuda-memory; neither has the other's.",
        source="NVIDIA k8s-device-plugin; tkestack gpu-manager pkg/types/types.go",
    ),
    Rule(
        id="GPU016",
        title="A pod with GPUs is placed by the scheduler",
        severity=Severity.MANDATORY,
        check=_scheduled,
        why="nodeName goes past the scheduler, so nothing counts the free GPUs; when there are too "
        "few, the kubelet ends the pod with OutOfnvidia.com/gpu.",
        source="kubernetes v1.34.4 pkg/kubelet/lifecycle/predicate.go",
    ),
    Rule(
        id="GPU026",
        title="An update of a GPU Deployment needs no spare GPUs",
        severity=Severity.ADVISORY,
        check=_surge,
        why="By default a quarter more pods start first (rounded up) and a quarter of the old ones "
        "may end (rounded down: none below four replicas). Without free GPUs the new ones stay "
        "Pending and the old ones are never replaced. With known pool sizes GPU039 decides.",
        source="kubernetes v1.34.4 pkg/apis/apps/v1/defaults.go SetDefaults_Deployment, "
        "pkg/controller/deployment/rolling.go reconcileOldReplicaSets",
        whole=True,
    ),
)
