"""How a workload with GPUs is placed, and ways around the device plugin."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.pod_request import gpu_requests
from policies.rules.resource_names import GPU, VCUDA_CORE, VCUDA_MEMORY
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, mapping, sequence, text

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


def _devices_not_forced(subject: Subject, context: Context) -> Iterator[Finding]:
    namespace = at(subject.manifest, "metadata", "namespace")
    if subject.pod is None or namespace is UNKNOWN:
        return
    if subject.namespace in context.infrastructure_namespaces:
        return
    for container in subject.pod.containers:
        for index, raw in enumerate(sequence(container.spec.get("env"))):
            env = mapping(raw)
            value = env.get("value")
            if env.get("name") != "NVIDIA_VISIBLE_DEVICES" or value is UNKNOWN:
                continue
            if value not in ("none", "void"):
                yield Finding(
                    path=f"{container.path}.env[{index}]",
                    found="NVIDIA_VISIBLE_DEVICES set by the pod",
                    wanted="none or void, or no such variable",
                    cure=f"Ask for {GPU} under limits; the device plugin sets the variable.",
                    container=container.name,
                )


def _not_privileged(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None or not gpu_requests(subject.pod, context):
        return
    for container in subject.pod.containers:
        if at(container.spec, "securityContext", "privileged") is True:
            yield Finding(
                path=f"{container.path}.securityContext.privileged",
                found="true in a pod that asks for GPUs",
                wanted="false",
                cure="Name the capabilities that it needs: privileged sees every GPU of the node.",
                container=container.name,
            )


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


def _daemon_set(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind == "DaemonSet" and subject.pod:
        for name, amount in gpu_requests(subject.pod, context).items():
            yield Finding(
                path=subject.pod.under("spec"),
                found=f"{float(amount):g} {name} in a DaemonSet",
                wanted="no GPUs",
                cure="It holds them on every node; use a Deployment or a Job.",
            )


def _surge(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind != "Deployment" or not (subject.pod and gpu_requests(subject.pod, context)):
        return
    strategy = at(subject.manifest, "spec", "strategy")
    kind = at(strategy, "type")
    surge = at(strategy, "rollingUpdate", "maxSurge")
    if UNKNOWN in (strategy, kind, surge) or kind == "Recreate" or surge in (0, "0", "0%"):
        return
    yield Finding(
        path="spec.strategy",
        found="an update that starts new pods before it ends old ones",
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
        id="GPU017",
        title="NVIDIA_VISIBLE_DEVICES is left to the device plugin",
        severity=Severity.MANDATORY,
        check=_devices_not_forced,
        why="The NVIDIA runtime gives a container the GPUs that this variable names, counted or "
        "not. The pod's own value comes after the device plugin's and wins.",
        source="kubernetes v1.34.4 pkg/kubelet/kubelet_pods.go; nvidia-container-toolkit "
        "api/config/v1/toml.go accept-nvidia-visible-devices-envvar-when-unprivileged",
    ),
    Rule(
        id="GPU022",
        title="A container beside GPUs is not privileged",
        severity=Severity.ADVISORY,
        check=_not_privileged,
        why="A privileged container sees every device of the node, whatever it asked for.",
        source="kubernetes issue 81256",
    ),
    Rule(
        id="GPU024",
        title="A DaemonSet holds no GPUs",
        severity=Severity.ADVISORY,
        check=_daemon_set,
        why="Each of its pods takes GPUs of its node for as long as the DaemonSet lives.",
        source="kubernetes v1.34.4 pkg/controller/daemon",
    ),
    Rule(
        id="GPU026",
        title="An update of a GPU Deployment needs no spare GPUs",
        severity=Severity.ADVISORY,
        check=_surge,
        why="The default strategy starts a quarter more pods first (rounded up); without free GPUs "
        "they stay Pending and the old ones are never replaced.",
        source="kubernetes v1.34.4 pkg/apis/apps/v1/defaults.go SetDefaults_Deployment",
        whole=True,
    ),
)
