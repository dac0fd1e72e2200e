"""Ways to a GPU that go past the device plugin."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.host_paths import host_paths
from policies.rules.pod_request import gpu_requests
from policies.rules.pod_spec import Container, Pod
from policies.rules.pools import candidate_pools, gpu_pools, hard_taints, tolerates
from policies.rules.resource_names import GPU
from policies.rules.rule import Finding, Need, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, mapping, sequence, text

VARIABLE = "NVIDIA_VISIBLE_DEVICES"
NO_DEVICES = ("", "none", "void")  # empty is void: nvidia-container-toolkit internal/config/image
# What gives GPUs, or lets a container start others that have them.
GIVES_GPUS = (
    *("/dev/nvidia", "/dev/dri", "/dev/kfd", "/dev/char", "/run/nvidia", "/var/run/nvidia"),
    *("/var/lib/kubelet/device-plugins", "/etc/cdi", "/run/cdi", "/var/run/cdi"),
    *("/etc/containerd", "/etc/kubernetes/manifests"),
)
PROCESS_ROOT = "^/proc/([0-9]+|self|thread-self)/(root|cwd)(/|$)"
"""What a process sees as its file system: of process 1 that of the host."""
SOCKETS = frozenset(
    f"{folder}/{name}"
    for folder in ("/run", "/var/run")
    for name in (
        "docker.sock",
        "containerd/containerd.sock",
        "containerd/containerd.sock.ttrpc",
        "crio/crio.sock",
        "k3s/containerd/containerd.sock",
        "cri-dockerd.sock",
        "podman/podman.sock",
    )
)
ALL_DEVICES = frozenset({"ALL", "SYS_ADMIN", "CAP_SYS_ADMIN", "CAP_ALL"})
PARENTS = frozenset(
    {"/", "/dev", "/run", "/var/run", "/var", "/var/lib", "/var/lib/kubelet"}
    | {"/etc", "/etc/kubernetes"}
    | {socket.rpartition("/")[0] for socket in SOCKETS}
)


def _devices_not_forced(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None or not subject.is_workload(context):
        return
    for container in subject.pod.containers:
        for place, found in _named_devices(container):
            yield Finding(
                path=f"{container.path}.{place}",
                found=found,
                wanted="none or void, or no such variable",
                cure=f"Ask for {GPU} under limits; the device plugin sets the variable.",
                container=container.name,
            )


def _named_devices(container: Container) -> Iterator[tuple[str, str]]:
    """Where a container's environment names devices, or may by a prefix, and what is there."""
    for index, raw in enumerate(sequence(container.spec.get("env"))):
        env = mapping(raw)
        value = env.get("value")
        if env.get("name") != VARIABLE or value is UNKNOWN:
            continue
        if env.get("valueFrom") is not None or (value or "") not in NO_DEVICES:
            yield f"env[{index}]", f"{VARIABLE} set by the pod"
    for index, source in enumerate(sequence(container.spec.get("envFrom"))):
        prefix = text(at(source, "prefix"))
        if prefix and VARIABLE.startswith(prefix):
            yield f"envFrom[{index}].prefix", f"{prefix}, with which a key can make {VARIABLE}"


def _not_by_reference(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind not in ("ConfigMap", "Secret") or not subject.is_workload(context):
        return
    part, value = _by_reference(subject)
    if part and value is not UNKNOWN and value not in NO_DEVICES:
        yield Finding(
            path=f"{part}[{VARIABLE}]",
            found=f"{VARIABLE} for containers that take their environment from here",
            wanted="no such key",
            cure=f"Remove it; containers ask for {GPU} under limits.",
        )


def _by_reference(subject: Subject) -> tuple[str, object]:
    """Where the variable stands, and its value; empty where it does not.

    A Secret's `data` is base64, and its `stringData` is written over it (kubernetes v1.34.4
    pkg/apis/core/v1/conversion.go Convert_v1_Secret_To_core_Secret).
    """
    if subject.kind == "Secret":
        plain = at(subject.manifest, "stringData")
        if plain is UNKNOWN or VARIABLE in mapping(plain):
            return "stringData", at(plain, VARIABLE)
    data = mapping(at(subject.manifest, "data"))
    if VARIABLE not in data:
        return "", None
    value = data[VARIABLE]
    return "data", _decoded(value) if subject.kind == "Secret" else value


def _decoded(value: object) -> object:
    """The text that base64 stands for, as Go reads it; `None` where it stands for none."""
    if value is UNKNOWN or not isinstance(value, str):
        return value if value is UNKNOWN else None
    try:
        return b64decode(re.sub(r"[\r\n]", "", text(value)), validate=True).decode()
    except ValueError:
        return None


def _not_privileged(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None or not subject.is_workload(context):
        return
    if not gpu_requests(subject.pod, context):
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
        added = sequence(at(container.spec, "securityContext", "capabilities", "add"))
        for index, capability in enumerate(added):
            if text(capability).upper() in ALL_DEVICES:
                yield Finding(
                    path=f"{container.path}.securityContext.capabilities.add[{index}]",
                    found=f"{text(capability)} in a pod that asks for GPUs",
                    wanted="none of " + ", ".join(sorted(ALL_DEVICES)),
                    cure="Name what it needs: with these a container mounts the node's devices.",
                    container=container.name,
                )


def _on_gpu_nodes(pod: Pod, context: Context) -> bool:
    """Whether the pod asks for GPUs, or tolerates the taint of nodes that have some.

    Nodes without such a taint take every pod that their labels don't rule out.
    """
    if gpu_requests(pod, context):
        return True
    if any(not hard_taints(pool) for pool in candidate_pools(pod, context)):
        return True
    tolerations = sequence(pod.spec.get("tolerations"))
    taints = [taint for pool in gpu_pools(context) for taint in hard_taints(pool)]
    return any(
        toleration is not UNKNOWN and tolerates(toleration, taint)
        for toleration in tolerations
        for taint in taints
    )


def _no_host_paths(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None or not subject.is_workload(context):
        return
    near = _on_gpu_nodes(subject.pod, context)
    for index, path in host_paths(subject.pod):
        gives = path.startswith(GIVES_GPUS) or path in SOCKETS or re.match(PROCESS_ROOT, path)
        if gives or (near and path in PARENTS):
            yield Finding(
                path=subject.pod.under(f"spec.volumes[{index}].hostPath.path"),
                found=path[:80],
                wanted="no host path by which a container gets GPUs that nobody counts",
                cure=f"Remove the volume; ask for {GPU} under limits.",
            )


def _runtime(subject: Subject, context: Context) -> Iterator[Finding]:
    pod, wanted = subject.pod, context.runtime_class
    if pod is None or wanted is None or not gpu_requests(pod, context):
        return
    given = pod.spec.get("runtimeClassName")
    name = text(given)
    path = pod.under("spec.runtimeClassName")
    if given is UNKNOWN or name == wanted or name in context.runtime_classes:
        return
    if not name:
        yield Finding(
            path=path,
            found="none",
            wanted=wanted,
            cure=f"Set runtimeClassName: {wanted}; the nodes' default runtime gives no GPUs.",
        )
    else:
        yield Finding(
            path=path,
            found=name[:80],
            wanted=wanted or "none, because nvidia is the default runtime",
            cure="A pod of a RuntimeClass that is not there is refused; its Deployment is not.",
        )


RULES = (
    Rule(
        id="GPU017",
        title="NVIDIA_VISIBLE_DEVICES is left to the device plugin",
        severity=Severity.MANDATORY,
        check=_devices_not_forced,
        why="The NVIDIA runtime gives a container the GPUs that this variable names, counted or "
        "not. The pod's own value comes after the device plugin's and wins. With a prefix in "
        "envFrom a ConfigMap can make the variable from a key that doesn't show it.",
        source="kubernetes v1.34.4 pkg/kubelet/kubelet_pods.go; nvidia-container-toolkit "
        "api/config/v1/toml.go accept-nvidia-visible-devices-envvar-when-unprivileged",
    ),
    Rule(
        id="GPU022",
        title="A container beside GPUs is not privileged",
        severity=Severity.MANDATORY,
        check=_not_privileged,
        why="A privileged container sees every device of the node, whatever it asked for; one with "
        "the capability SYS_ADMIN can mount them. HAMi refuses privileged pods too.",
        source="kubernetes issue 81256; Project-HAMi HAMi pkg/scheduler/webhook.go",
    ),
    Rule(
        id="GPU035",
        title="No ConfigMap or Secret brings NVIDIA_VISIBLE_DEVICES",
        severity=Severity.MANDATORY,
        check=_not_by_reference,
        why="A container that takes its environment from it (envFrom) gets the GPUs that the "
        "variable names, and its own manifest does not show it.",
        source="kubernetes v1.34.4 pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
    ),
    Rule(
        id="GPU036",
        title="No host path leads to GPUs",
        severity=Severity.MANDATORY,
        check=_no_host_paths,
        why="Device files, the driver's and the kubelet's folders and the container runtime's "
        "socket give GPUs past the device plugin. Folders above them are refused in pods that ask "
        "for GPUs or may go to GPU nodes, by a toleration or because these have no taint.",
        source="kubescape controls C-0045, C-0048; kubernetes v1.34.4 pkg/kubelet/cm/devicemanager",
    ),
    Rule(
        id="GPU037",
        title="A pod that asks for GPUs names the RuntimeClass that has them",
        severity=Severity.MANDATORY,
        check=_runtime,
        why="Where nvidia is not the default runtime, a container without the RuntimeClass gets no "
        "GPU. Where it is, a RuntimeClass that the cluster lacks refuses the pod: the Deployment "
        "is taken and stays at 0 pods.",
        source="kubernetes v1.34.4 plugin/pkg/admission/runtimeclass/admission.go",
        needs=frozenset({Need.RUNTIME}),
        whole=True,
    ),
)
