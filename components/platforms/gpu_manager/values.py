"""Values of the project's own chart ``gpu-manager``, and the scheduler's extender configuration.

Sources: tkestack/gpu-manager 8cd842e (build/start.sh, gpu-manager.yaml), tkestack/gpu-admission
47d56ae (README: address and verb of the extender).
"""

from __future__ import annotations

from typing import Any

from components.platforms.site import Site
from components.settings.gpu_manager import CRI, GpuManagerSettings, release_of
from components.settings.nodes.cards import CORE, MEMORY

NAMESPACE = "kube-system"
VERSION = "1.1.5"
ADMISSION = "gpu-quota-admission"
#: TKEStack's image of it, the only one with a version.
ADMISSION_RELEASE = (1, 0, 0)
#: ConfigMap with what the cluster's scheduler must be started with.
SCHEDULER = "gpu-quota-admission-scheduler"
PORT = 3456
METRICS_PATH = "/metric"
#: What `/metric` serves (gpu-manager 8cd842e, pkg/services/display/display.go).
METRICS = (
    "container_gpu_utilization",
    "container_request_gpu_utilization",
    "container_gpu_memory_total",
    "container_request_gpu_memory",
)
#: What document 002 reserves for each of the two programs.
RESOURCES = {"cpu": "1", "memory": "1Gi"}


def extra_flags(manager: GpuManagerSettings, *, systemd_cgroup: bool) -> list[str]:
    """``EXTRA_FLAGS`` that the image's version knows: one more ends the program.

    Its own defaults are dockershim's socket and cgroupfs; before 1.1.0 it knows Docker alone and
    looks for a kubeconfig of root's (build/start.sh).
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
    """``EXTRA_FLAGS`` of the extender, as its manifest in tkestack/tke 31e93ce has them for v1.0.0.

    Other images are built from newer source, which doesn't know the flag (gpu-admission f7d9868).
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
        "extraFlags": extra_flags(manager, systemd_cgroup=site.runtime.systemd_cgroup),
        "admissionFlags": admission_flags(manager),
        "resources": {"requests": RESOURCES, "limits": RESOURCES},
        "tolerations": [
            # TKEStack's own taint of GPU nodes, as in gpu-manager.yaml.
            {"key": CORE, "operator": "Exists", "effect": "NoSchedule"},
            *site.tolerations,
        ],
    }


def scheduler_configuration(address: str) -> dict[str, Any]:
    """What the cluster's kube-scheduler must be started with (``--config``).

    Policy files, which gpu-admission's README shows, are gone since Kubernetes 1.23; this is their
    successor. Only pods that ask for the managed resources are sent to the extender, and nothing
    of them is scheduled without it: it writes which card a pod gets, which gpu-manager reads.

    Args:
        address: host of the Service ``gpu-quota-admission``. An address, not a name: schedulers
            run in the host's network, where the cluster's names are not known.
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
                    {"name": CORE, "ignoredByScheduler": False},
                    {"name": MEMORY, "ignoredByScheduler": False},
                ],
            }
        ],
    }
