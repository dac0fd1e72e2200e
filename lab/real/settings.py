"""Configuration of containerd and kubelet on a test node, before this project prepares the node."""

from __future__ import annotations

from typing import Any

from lab.real import cgroups
from lab.real.image import IMAGE

#: containerd's configuration on an unprepared host, without an NVIDIA runtime. AppArmor and lower
#: OOM scores are unavailable in a namespace. The sandbox uses the tests' own image.
CONTAINERD = f"""version = 3
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
restrict_oom_score_adj = true
"""


def kubelet_settings(name: str, port: int) -> dict[str, Any]:
    """Return the kubelet's configuration for a test node.

    It equals kubeadm's configuration, except for settings that don't work in namespaces.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroups.name_of(name)}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "1s",
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",
    }
