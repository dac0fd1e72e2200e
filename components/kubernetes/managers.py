"""What gives GPUs out in a cluster, and what finds features: known by their images. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from components.kubernetes.api import Json

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


@dataclass(frozen=True)
class Manager:
    """A DaemonSet that gives GPUs out, or finds features.

    Attributes:
        what: what it is.
        name, namespace: of the DaemonSet.
        selector: labels of the nodes that it runs on.
        scheduled: how many pods it should have.
        ours: whether it is of one of the project's own charts.
    """

    what: str
    name: str
    namespace: str
    selector: Mapping[str, str] = field(default_factory=dict)
    scheduled: int = 0
    ours: bool = False


def daemon_set(item: Json) -> Manager | None:
    """Return what is kept of a DaemonSet that is a manager; None for any other."""
    metadata, spec = item["metadata"], item["spec"]["template"]["spec"]
    images = [container["image"] for container in spec["containers"]]
    what = next((name for part, name in MANAGERS.items() for i in images if part in i), None)
    if what and any(word in metadata["name"] for word in _HELPERS):
        return None
    if what is None and any(_NFD_IMAGE in image for image in images):
        what = NFD
    if what is None:
        return None
    return Manager(
        what=what,
        name=metadata["name"],
        namespace=metadata["namespace"],
        selector=spec.get("nodeSelector") or {},
        scheduled=item.get("status", {}).get("desiredNumberScheduled", 0),
        ours=OWNER in (metadata.get("annotations") or {}),
    )
