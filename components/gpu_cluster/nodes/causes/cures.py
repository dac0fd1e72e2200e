"""Cures for messages of kubelets, container runtimes, registries and GPU software."""

from __future__ import annotations

import re

LOADED = "appears to already be loaded"
"""Message of a driver installer on a host that has already loaded another driver."""

# Patterns of messages, each with its cure; the first matching pattern is used. Message sources:
# containerd v1.7.29 pkg/cri/server/sandbox_run.go and v2.0 (runtimes), CRI-O (`failed to find
# runtime handler`), NVIDIA/go-nvml (ERROR_*), kubernetes v1.34.4
# pkg/kubelet/cm/devicemanager/manager.go (devices).
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
        "correct the "
        "pod's runtimeClassName",
    ),
    (
        r"network for sandbox|\bcni\b|network plugin",
        "see the pods of the network plugin on this node",
    ),
    (
        r"ERROR_LIBRARY_NOT_FOUND|libnvidia-ml\.so|could not load NVML",
        "see that the node has a driver, and that the pod runs with NVIDIA's runtime "
        "(runtimeClassName, or the engine's default runtime): its container has no driver library",
    ),
    (
        r"ERROR_DRIVER_NOT_LOADED|couldn't communicate with the NVIDIA driver",
        "load or install the node's driver",
    ),
    (
        r"ERROR_LIB_RM_VERSION_MISMATCH|[Dd]river/library version mismatch",
        "drain the node and reboot it, so that module and library have one version",
    ),
    (
        r"cannot allocate unregistered device|unknown Device Plugin",
        "delete the pod, and its controller creates a new one: the device plugin had not "
        "registered yet",
    ),
    (
        r"no healthy devices|no longer healthy",
        "see the device plugin's log and the node's Xid lines; delete the pod once a GPU is "
        "healthy",
    ),
    (
        r"requested number of devices unavailable",
        "delete the pod, and its controller creates a new one; check which pods use this node's "
        "devices",
    ),
)
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


def registry_cure(message: str, fallback: str) -> str:
    """Return the cure for a message about an image, or `fallback` if it is not known."""
    return _first_matching_cure(_REGISTRY, message, fallback)


def refusal_cure(message: str) -> str:
    """Return the cure for a message of the API server that refuses a pod."""
    fallback = "correct the pod's template, or the policy or object that the message names"
    return _first_matching_cure(_REFUSED, message, fallback)


def _first_matching_cure(table: tuple[tuple[str, str], ...], message: str, fallback: str) -> str:
    return next((cure for pattern, cure in table if re.search(pattern, message)), fallback)
