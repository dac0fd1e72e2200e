"""Kubernetes objects for real and simulated nodes: device plugin, MPS daemon, and pods."""

from __future__ import annotations

from typing import Any

import yaml

from gpu_cluster_lab.simulator import marks
from lab.real.image import IMAGE

Json = dict[str, Any]

PLUGIN = "nvidia-device-plugin"
#: Labels, container and settings of the device plugin in NVIDIA's chart (k8s-device-plugin v0.19.3,
#: deployments/helm/nvidia-device-plugin/templates/daemonset-device-plugin.yml).
LABELS = {"app.kubernetes.io/name": PLUGIN}
#: One of the node labels by which NVIDIA's chart selects nodes.
GPU_NODES = {"feature.node.kubernetes.io/pci-10de.present": "true"}
CONFIGURATIONS = "nvidia-plugin-configs"
#: Folder for MPS on a node, and name of the DaemonSet that runs the MPS daemon.
MPS_ROOT, MPS = "/run/nvidia/mps", "mps-control-daemon"
#: Device plugin configurations with MPS, and their number of replicas per GPU.
SHARED_BY_MPS = {"mps": 2, "crowded": 49}
#: Device plugin configurations under which the plugin sees only some GPUs, with the GPUs' indexes.
VISIBLE = {"half": "0,1,2,3"}


def configuration(sharing: Json | None = None, strategy: str = "none", **plugin: Any) -> str:
    """Return a configuration file of the NVIDIA device plugin (api/config/v1).

    Devices are passed to containers by volume mounts, as on hosts that this project prepares.
    """
    plugin_flags = {"deviceListStrategy": ["volume-mounts"], **plugin}
    flags = {"migStrategy": strategy, "plugin": plugin_flags}
    return yaml.safe_dump(
        {"version": "v1", "flags": flags, **({"sharing": sharing} if sharing else {})}
    )


def time_slicing(
    replicas: int, rename: bool = False, alone: bool = False, name: str = marks.GPU
) -> Json:
    """Return device plugin settings that advertise each GPU `replicas` times (time slicing).

    `alone` rejects containers that request more than one replica.
    """
    resource = {"name": name, "replicas": replicas}
    flags = {"renameByDefault": rename, "failRequestsGreaterThanOne": alone}
    return {"timeSlicing": {**flags, "resources": [resource]}}


def mps(replicas: int) -> Json:
    """Return device plugin settings that share each GPU between `replicas` processes with MPS."""
    return {"mps": {"resources": [{"name": marks.GPU, "replicas": replicas}]}}


def configurations() -> Json:
    """Return the ConfigMap with all device plugin configurations, each under its name."""
    files = {
        "default": configuration(),
        "shared": configuration(time_slicing(2)),
        "half": configuration(time_slicing(2)),
        "renamed": configuration(time_slicing(2, rename=True)),
        "four": configuration(time_slicing(4)),
        "alone": configuration(time_slicing(2, alone=True)),
        "single": configuration(strategy="single"),
        "mixed": configuration(strategy="mixed"),
        "parts": configuration(time_slicing(2, name="nvidia.com/mig-3g.20gb"), "mixed"),
        "index": configuration(deviceIDStrategy="index"),
        "variable": configuration(deviceListStrategy=["envvar"]),
        "specs": configuration(passDeviceSpecs=True),
        **{key: configuration(mps(replicas)) for key, replicas in SHARED_BY_MPS.items()},
    }
    return {"metadata": {"name": CONFIGURATIONS}, "data": files}


def plugin_pods(key: str) -> Json:
    """Return the device plugin's DaemonSet; `key` names a configuration in the ConfigMap."""
    container = {
        "name": "nvidia-device-plugin-ctr",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/usr/bin/probe", "driver", "/usr/bin/nvidia-device-plugin"],
        "env": [
            {"name": "CONFIG_FILE", "value": f"/config/{key}"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": VISIBLE.get(key, "all")},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
            {"name": "MPS_ROOT", "value": MPS_ROOT},
        ],
        "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "device-plugins", "mountPath": "/var/lib/kubelet/device-plugins"},
            {"name": "config", "mountPath": "/config"},
            {"name": "driver", "mountPath": "/node/driver"},
            *_MPS_MOUNTS,
        ],
    }
    spec = {
        "nodeSelector": GPU_NODES,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [
            {"name": "device-plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}},
            {"name": "config", "configMap": {"name": CONFIGURATIONS}},
            {"name": "driver", "hostPath": {"path": "/proc/driver"}},
            *_MPS_FOLDERS,
        ],
    }
    return _daemon_set(PLUGIN, LABELS, spec)


_MPS_MOUNTS = (
    {"name": "mps-root", "mountPath": "/mps"},
    {"name": "mps-shm", "mountPath": "/dev/shm"},  # noqa: S108  the container's own
)
_MPS_FOLDERS = (
    {"name": "mps-root", "hostPath": {"path": MPS_ROOT, "type": "DirectoryOrCreate"}},
    {"name": "mps-shm", "hostPath": {"path": f"{MPS_ROOT}/shm"}},
)


def mps_pods(key: str) -> Json:
    """Return the DaemonSet of the MPS daemon, with the containers and folders of NVIDIA's chart.

    Source: k8s-device-plugin v0.19.3,
    deployments/helm/nvidia-device-plugin/templates/daemonset-mps-control-daemon.yml.
    """
    common = {"image": IMAGE, "imagePullPolicy": "Never", "securityContext": {"privileged": True}}
    root, _ = _MPS_MOUNTS
    mounting = {
        "name": "mps-control-daemon-mounts",
        "command": ["/usr/bin/mps-control-daemon", "mount-shm"],
        "volumeMounts": [{**root, "mountPropagation": "Bidirectional"}],
    }
    daemon = {
        "name": "mps-control-daemon-ctr",
        "command": ["/usr/bin/mps-control-daemon"],
        "env": [
            {"name": "CONFIG_FILE", "value": f"/config/{key}"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ],
        "volumeMounts": [*_MPS_MOUNTS, {"name": "config", "mountPath": "/config"}],
    }
    spec = {
        "nodeSelector": GPU_NODES,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "initContainers": [{**common, **mounting}],
        "containers": [{**common, **daemon}],
        "volumes": [*_MPS_FOLDERS, {"name": "config", "configMap": {"name": CONFIGURATIONS}}],
    }
    return _daemon_set(MPS, {"app": MPS}, spec)


def _daemon_set(name: str, labels: dict[str, str], spec: Json) -> Json:
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def gpu_pod(
    name: str, node: str, gpus: tuple[int, ...], mode: str = "look", resource: str = marks.GPU
) -> Json:
    """Return a pod on a node with one container for each number in `gpus`, the GPUs it requests."""
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": containers(gpus, mode, resource),
        },
    }


def containers(gpus: tuple[int, ...], mode: str, resource: str = marks.GPU) -> list[Json]:
    """Return containers with the test program `probe`, one for each number in `gpus`."""
    return [
        {
            "name": f"gpu-{index}",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["/usr/bin/probe", mode],
            "resources": {"limits": {resource: str(count)}} if count else {},
        }
        for index, count in enumerate(gpus)
    ]
