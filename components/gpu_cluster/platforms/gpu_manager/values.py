"""Helm values of this project's chart `gpu-manager`, and the scheduler's extender configuration.

Sources: tkestack/gpu-manager 8cd842e (build/start.sh, gpu-manager.yaml), tkestack/gpu-admission
47d56ae (README: address and verb of the extender).
"""

from __future__ import annotations

from typing import Any

from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.gpu_manager import CRI, GpuManagerSettings, release_of
from gpu_rules.kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY

NAMESPACE = "kube-system"
VERSION = "1.1.5"
ADMISSION = "gpu-quota-admission"
# Version of TKEStack's gpu-quota-admission image, the only image with a version.
ADMISSION_RELEASE = (1, 0, 0)
# ConfigMap with the configuration that the cluster's scheduler must be started with.
SCHEDULER = "gpu-quota-admission-scheduler"
PORT = 3456
METRICS_PATH = "/metric"
# Metrics at the path `/metric` (gpu-manager 8cd842e, pkg/services/display/display.go).
METRICS = (
    "container_gpu_utilization",
    "container_request_gpu_utilization",
    "container_gpu_memory_total",
    "container_request_gpu_memory",
)
# Requests and limits of gpu-manager and of the extender, each as in TKEStack's documentation.
RESOURCES = {"cpu": "1", "memory": "1Gi"}


def extra_flags(manager: GpuManagerSettings, *, systemd_cgroup: bool) -> list[str]:
    """Return gpu-manager's `EXTRA_FLAGS` for the image's version; it exits at an unknown flag.

    gpu-manager's own defaults are dockershim's socket and the cgroup driver cgroupfs. Before 1.1.0
    it supports only Docker and searches for root's kubeconfig (build/start.sh).
    """
    release = release_of(manager.image)
    if release is not None and release < CRI:
        return [*manager.extra_flags, "--incluster-mode=true"]
    driver = "systemd" if systemd_cgroup else "cgroupfs"
    return [
        *manager.extra_flags,
        f"--container-runtime-endpoint={manager.container_runtime_endpoint}",
        f"--cgroup-driver={driver}",
    ]


def admission_flags(manager: GpuManagerSettings) -> list[str]:
    """Return the flags in `EXTRA_FLAGS` of the scheduler extender.

    The manifest for v1.0.0 in tkestack/tke 31e93ce has this flag. Other images are built from newer
    source code that does not know the flag (gpu-admission f7d9868).
    """
    by_release = release_of(manager.admission_image) == ADMISSION_RELEASE
    return ["--incluster-mode=true"] if by_release else []


def values(manager: GpuManagerSettings, site: Site) -> dict[str, Any]:
    """Return the Helm values."""
    secret = site.registry.pull_secret
    return {
        "image": site.registry.deployed(manager.image),
        "admissionImage": site.registry.deployed(manager.admission_image),
        "imagePullSecrets": [{"name": secret}] if secret else [],
        "extraFlags": extra_flags(manager, systemd_cgroup=site.shared.runtime.systemd_cgroup),
        "admissionFlags": admission_flags(manager),
        "resources": {"requests": RESOURCES, "limits": RESOURCES},
        "tolerations": [
            # TKEStack's own taint of GPU nodes, which gpu-manager.yaml also tolerates.
            {"key": VCUDA_CORE, "operator": "Exists", "effect": "NoSchedule"},
            *site.tolerations,
        ],
    }


def scheduler_configuration(address: str) -> dict[str, Any]:
    """Return the configuration file that kube-scheduler must be started with (`--config`).

    gpu-admission's README shows a scheduler policy file; Kubernetes 1.23 removed policy files in
    favor of this format. The scheduler sends only pods that request the managed resources to the
    extender. Such pods are not scheduled without the extender, because it records on the pod which
    GPU the pod gets, and gpu-manager reads this record.

    Args:
        address: Cluster IP of the Service `gpu-quota-admission`. An IP address and no name is
            needed, because the scheduler runs in the host's network, where cluster DNS names do
            not resolve.
    """
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "extenders": [
            {
                "urlPrefix": f"http://{address}:{PORT}/scheduler",
                "filterVerb": "predicates",
                "enableHTTPS": False,
                "nodeCacheCapable": False,
                "ignorable": False,
                "httpTimeout": "30s",
                "managedResources": [
                    {"name": VCUDA_CORE, "ignoredByScheduler": False},
                    {"name": VCUDA_MEMORY, "ignoredByScheduler": False},
                ],
            }
        ],
    }
