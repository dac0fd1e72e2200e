"""What gives GPUs out in a cluster, and what finds features: known by their images. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.api import Json

NFD = "Node Feature Discovery"
#: What gives GPUs out, by a part of its image's name.
MANAGERS = {
    "k8s-device-plugin": "NVIDIA's device plugin",
    "nvidia-gpu-device-plugin": "a device plugin of GKE or kubespray",
    "tkestack/gpu-manager": "gpu-manager",
    "projecthami/hami": "HAMi",
    "k8s-dra-driver-gpu": "NVIDIA's DRA driver",
    "dra-driver-nvidia-gpu": "NVIDIA's DRA driver",
    "k8s-gpushare-plugin": "Aliyun's gpushare",
    "fake-gpu-operator": "fake-gpu-operator",
}
#: Of the same images, what gives no GPU out: feature discovery and the MPS daemon.
_HELPERS = ("feature-discovery", "mps-control-daemon")
_NFD_IMAGE = "node-feature-discovery"
#: On objects of the project's own charts.
OWNER = "gpu-cluster/owner"


def daemon_set(item: Json) -> Json | None:
    """What is kept of a DaemonSet that gives GPUs out or finds features; None for any other."""
    metadata, spec = item["metadata"], item["spec"]["template"]["spec"]
    images = [container["image"] for container in spec["containers"]]
    what = next((name for part, name in MANAGERS.items() for i in images if part in i), None)
    if what and any(word in metadata["name"] for word in _HELPERS):
        return None
    if what is None and any(_NFD_IMAGE in image for image in images):
        what = NFD
    if what is None:
        return None
    return {
        "what": what,
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "selector": spec.get("nodeSelector") or {},
        "scheduled": item.get("status", {}).get("desiredNumberScheduled", 0),
        "ours": OWNER in (metadata.get("annotations") or {}),
    }
