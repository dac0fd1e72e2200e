"""Cures for words of kubelets, container runtimes, registries, API servers and GPU software.

Only words that stand in an object's own status or in the log of its own container select a cure. An
event is only quoted: whoever may write events in the namespace may choose its words.
"""

from __future__ import annotations

import re

LOADED = "appears to already be loaded"
"""Message of a driver installer on a host that has already loaded another driver."""
AGAIN = "a controller makes a new pod by itself; without a controller, create it again"
"""What follows for a pod that has ended for ever."""
SICK = (
    "a GPU of the node has failed: see the node's Xid lines, cordon the node, and exclude the GPU "
    "(docs/how-to/sick-gpu.md)"
)
NO_RUNTIME = (
    "see that the node has a driver, and that the pod runs with NVIDIA's runtime "
    "(runtimeClassName, or the engine's default runtime): its container has no driver library"
)
NO_DRIVER = (
    "load or install the node's driver; if the GPU Operator installs it, see the driver's pod on "
    "the node"
)
OLD_DRIVER = "use an image with an older CUDA version, or install a newer driver on the node"
NO_OFED = (
    "install the network's OFED driver on the node (the Network Operator does), or disable RDMA "
    "in the settings of the driver (driver.rdma)"
)

# Patterns of messages and log lines, each with its cure; the first matching pattern is used. The
# reports that show each text are named in tests/proofs/world/causes/situations. Other sources:
# containerd v1.7.29 pkg/cri/server/sandbox_run.go and v2.0 (runtimes), CRI-O (`failed to find
# runtime handler`), NVIDIA/go-nvml (ERROR_*), kubernetes v1.34.4
# pkg/kubelet/cm/devicemanager/manager.go (devices), k8s-device-plugin v0.17.4
# internal/plugin/server.go (shared resources).
_CURES = (
    (
        # Document 003, "Error 1", of nvidia-driver-installer.
        LOADED,
        "remove the host's driver (nvidia-uninstall), reboot it, or declare driver.source: "
        "preinstalled",
    ),
    (
        r"no runtime for|runtime handler|OCI runtime for sandbox|RuntimeHandler",
        "configure this runtime on the node (`gpu-cluster up` does so on declared hosts), or "
        "correct the pod's runtimeClassName",
    ),
    (
        r"network for sandbox|\bcni\b|network plugin",
        "see the pods of the network plugin on this node",
    ),
    (
        r"CDI device",
        "generate the CDI specification of the node again (`nvidia-ctk cdi generate`, or a new pod "
        "of the container toolkit)",
    ),
    (r"unsatisfied condition: cuda|insufficient for CUDA|driver on your system is too old",
     OLD_DRIVER),
    (
        r"ERROR_LIB_RM_VERSION_MISMATCH|[Dd]river/library version mismatch",
        "drain the node and reboot it, so that module and library have one version",
    ),
    (
        r"not a shared mount",
        "make the mount shared on the node (`mount --make-rshared /`), also for each boot",
    ),
    (
        r"system not yet initialized|SYSTEM_NOT_READY",
        "start the fabric manager (nvidia-fabricmanager) on the node, in the driver's version: "
        "GPUs behind NVSwitch compute only with it",
    ),
    (
        r"no kernel image is available",
        "use an image that is compiled for the compute capability of the node's GPUs",
    ),
    (
        r"exec format error",
        "use an image of the node's architecture, or choose nodes of the image's architecture "
        "(nodeSelector kubernetes.io/arch)",
    ),
    (
        r"driver is in use",
        "drain the node of pods with GPUs, or reboot it: the driver can't be unloaded before",
    ),
    (
        r"driver(?: rpc)? error: (?:timed out|failed to process)",
        "enable persistence mode on the node (nvidia-persistenced); if `nvidia-smi` hangs there, "
        "too, see the node's Xid lines",
    ),
    (
        r"nvcgo rpc error",
        "lower the load of the node's processors and disks; the kubelet starts the container again",
    ),
    (
        r"no-gpu-has-",
        "request less, or see the log of the device plugin that shares GPUs by memory: it found no "
        "GPU with so much",
    ),
    (
        r"unknown device",
        "restart the device plugin's pod on the node, then create the pod again: its GPU is not on "
        "the node any more",
    ),
    (
        r"ERROR_LIBRARY_NOT_FOUND|libnvidia-ml\.so|could not load NVML|nvidia-smi\"?: executable|"
        r"invalid device discovery strategy|Incompatible strategy|"
        r"nvidia-cuda-mps-control: command not found",
        NO_RUNTIME,
    ),
    (
        r"ERROR_DRIVER_NOT_LOADED|couldn't communicate with the NVIDIA driver|"
        r"failed to run command 'nvidia-smi'",
        NO_DRIVER,
    ),
    (
        r"NVML: Unknown Error",
        "create the pod again: it lost its devices by a `systemctl daemon-reload` on the node, "
        "which `runtime.cdi: true` prevents",
    ),
    (
        r"error calling nvml\.Init",
        "restart the device plugin's pod on the node; if it fails again, see the node's Xid lines",
    ),
    (
        r"GPU is lost|fallen off the bus|determine the device handle|device link information",
        SICK,
    ),
    (
        r"Insufficient Permissions",
        "give the device plugin the capability SYS_ADMIN (securityContext), which MIG needs",
    ),
    (
        r"Topology locality|Topology Affinity",
        "request GPUs, CPUs and memory that fit one NUMA node, free such a node, or relax the "
        "kubelet's topologyManagerPolicy: the scheduler knows no NUMA nodes",
    ),
    (r"maximum request size for shared resources", "request 1: the GPU is shared"),
    (
        r"CUDA out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
        "use a smaller model or batch, or GPUs with more memory, and see what else uses this GPU",
    ),
    (
        r"Profiling is not supported",
        "leave the profiling metrics (DCGM_FI_PROF_…) out of the list of dcgm-exporter",
    ),
    (r"MPS daemon", "see the pod of the MPS control daemon on the node"),
    (
        r"resolve Linux kernel version|locate Linux kernel version",
        "let the driver's container reach a repository with the headers of the node's kernel, or "
        "boot a kernel that the repository has",
    ),
    (
        r"IMEX session|Imex session|NV_ERR_IN_USE",
        "stop the host's own service: `systemctl disable --now nvidia-imex`",
    ),
    (
        r"container stack to be setup",
        "see the pods nvidia-container-toolkit-daemonset and nvidia-operator-validator on the node",
    ),
    (r"mofed|mellanox ofed", NO_OFED),
    (
        r"no binding pod found",
        "name the scheduler of this device plugin in the pod's schedulerName: another scheduler "
        f"placed the pod; {AGAIN}",
    ),
    (r"no healthy devices|no longer healthy",
     f"see the device plugin's log and the node's Xid lines; {AGAIN}"),
    (r"unregistered device|unknown Device Plugin",
     f"see the device plugin's pod on the node; {AGAIN}"),
    (
        r"Available: 0\b",
        "restart the kubelet, if no pod of the node holds these devices: its record of them is old",
    ),
    (
        r"will run as root",
        "set runAsUser to another user than root, or use an image that has one",
    ),
    (
        r"NVIDIA_VISIBLE_DEVICES envvar",
        "set NVIDIA_VISIBLE_DEVICES to void in the pod, or request a GPU",
    ),
    (r"nvidia-persistenced", "start nvidia-persistenced on the node"),
    (
        r"BPF_CGROUP_DEVICE|bpf_prog",
        "update the container toolkit of the node, and see no-cgroups in its config.toml",
    ),
    (
        r"lstat /run/nvidia/driver",
        "see that the node's driver runs, and restart the device plugin's pod there: it hands out "
        "paths of a driver container that is not there",
    ),
    (
        r"(?i)(secret|configmap) \S+ not found|couldn't find key",
        "create this object, or its key, in the pod's namespace, or correct the name",
    ),
    (
        r"executable file not found|exec: \"",
        "correct the container's command, or use an image that has this program",
    ),
    (
        r"exceeds the .*limit",
        f"raise the limit that the message names, or use less; {AGAIN}",
    ),
)  # fmt: skip
# Patterns of image registries' error messages, each with its cure. Sources: containerd
# core/remotes/docker, and the error codes of the registry `distribution`.
_REGISTRY = (
    (r"toomanyrequests|429 Too Many", "wait, or pull from a mirror or with credentials"),
    (
        r"unauthorized|denied|[Ff]orbidden|no basic auth|authorization failed",
        "give the pod a pull secret that may read this image, and check the image's name",
    ),
    (r"x509", "let the container runtime trust the registry's certificate authority"),
    (
        r"no such host|i/o timeout|connection refused|no route to host|deadline exceeded|"
        r"TLS handshake",
        "see that the node reaches the registry, or declare a mirror (`registry`)",
    ),
    (r"manifest unknown|not found|name unknown", "correct the image's name, tag or digest"),
    (r"pull policy of Never", "put the image on the node, or change imagePullPolicy"),
)

# Messages of the API server's admission about pods that controllers create, each with its cure.
# Sources: kubernetes v1.37.2 plugin/pkg/admission (runtimeclass, priority, serviceaccount,
# limitranger); k8s.io/apiserver v0.37.2 pkg/admission/plugin (resourcequota, webhook, policy) and
# pkg/util/webhook/error.go; k8s.io/pod-security-admission v0.36.2 admission/admission.go.
_REFUSED = (
    (r"must specify", "declare the requests and limits that the ResourceQuota counts"),
    (
        # GKE limits these classes outside kube-system.
        r"insufficient quota to match these scopes",
        "create a ResourceQuota in the namespace whose scopeSelector names this PriorityClass",
    ),
    (r"exceeded quota|failed quota", "raise the ResourceQuota, end pods that use it up, or request "
     "less"),
    (
        r"violates PodSecurity",
        "label the namespace pod-security.kubernetes.io/enforce=privileged, if you trust its pods",
    ),
    (r"RuntimeClass .* not found", "create this RuntimeClass, or correct the pod's "
     "runtimeClassName"),
    (r"no PriorityClass with name", "create this PriorityClass, or correct the pod's "
     "priorityClassName"),
    (r"error looking up service account", "create this ServiceAccount in the namespace"),
    (
        r"failed calling webhook",
        "see that the pods behind this webhook run, or remove its configuration if nobody uses it",
    ),
    (
        r"(maximum|minimum) \S+ usage per|limit to request ratio",
        "change the pod's requests and limits, or the LimitRange of its namespace",
    ),
)  # fmt: skip


QUOTA = r"(exceeded|failed) quota|insufficient quota"
"""Pattern of refusals by a ResourceQuota."""


def cure_of(message: str, fallback: str) -> str:
    """Return the cure for a message of a kubelet, a runtime or a container.

    Args:
        fallback: Cure for a message that is not known.
    """
    return _first_matching_cure(_CURES, message, fallback)


def is_known(line: str) -> bool:
    """Return whether there is a specific cure for a line of a log."""
    return bool(cure_of(line, ""))


def registry_cure(message: str, fallback: str) -> str:
    """Return the cure for a message about an image, or `fallback` if it is not known."""
    return _first_matching_cure(_REGISTRY, message, fallback)


def refusal_cure(message: str) -> str:
    """Return the cure for a message of the API server that refuses a pod."""
    fallback = "correct the pod's template, or the policy or object that the message names"
    return _first_matching_cure(_REFUSED, message, fallback)


def _first_matching_cure(table: tuple[tuple[str, str], ...], message: str, fallback: str) -> str:
    return next((cure for pattern, cure in table if re.search(pattern, message)), fallback)
