"""Recognize DaemonSets that allocate GPUs or discover node features, by their images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_cluster.kubernetes.api import Json

NFD = "Node Feature Discovery"
HAMI = "HAMi"
# Software that allocates GPUs, by a part of its image name.
MANAGERS = {
    "k8s-device-plugin": "NVIDIA's device plugin",
    "nvidia-gpu-device-plugin": "a device plugin of GKE or kubespray",
    "tkestack/gpu-manager": "gpu-manager",
    "projecthami/hami": HAMI,
    "k8s-dra-driver-gpu": "NVIDIA's DRA driver",
    "dra-driver-nvidia-gpu": "NVIDIA's DRA driver",
    "k8s-gpushare-plugin": "Aliyun's gpushare",
    "fake-gpu-operator": "fake-gpu-operator",
}
# Parts of the names of DaemonSets that allocate no GPUs although they use an image listed above.
_HELPERS = ("feature-discovery", "mps-control-daemon")
_NFD_IMAGE = "node-feature-discovery"
# Folders of a kubelet in which device plugins and DRA drivers register (k8s.io/kubelet v0.36.3
# pkg/apis/deviceplugin/v1beta1/constants.go, DevicePluginPath), and the folders above them.
_REGISTRATION = frozenset({"device-plugins", "plugins_registry", "kubelet", "lib", "var", ""})
# Annotation of objects from this project's own charts.
OWNER = "gpu-cluster/owner"
# Annotations in which Helm records the release of an object.
HELM_RELEASE = "meta.helm.sh/release-name"
HELM_NAMESPACE = "meta.helm.sh/release-namespace"


@dataclass(frozen=True)
class Manager:
    """A DaemonSet that allocates GPUs or discovers node features.

    Attributes:
        what: Name of the software.
        name: Name of the DaemonSet.
        namespace: Namespace of the DaemonSet.
        selector: Node labels that the DaemonSet's pods require.
        scheduled: Number of pods that the DaemonSet should have.
        ours: True if the DaemonSet belongs to a chart of this project.
        release: Namespace and name of the Helm release in the DaemonSet's annotations.
        controller: Kind of the object that controls the DaemonSet; empty if none does.
        reaches_node: Whether the pods can do what their image is for: allocate GPUs by a folder of
            the kubelet, or read features in folders of the node. An image alone proves nothing,
            because any tenant may write its name.
    """

    what: str
    name: str
    namespace: str
    selector: Mapping[str, str] = field(default_factory=dict)
    scheduled: int = 0
    ours: bool = False
    release: tuple[str, str] | None = None
    controller: str = ""
    reaches_node: bool = True


def daemon_set(item: Json) -> Manager | None:
    """Return the properties of a DaemonSet that allocates GPUs or finds features, else None."""
    metadata, spec = item["metadata"], item["spec"]["template"]["spec"]
    images = [container["image"] for container in spec["containers"]]
    software = next(
        (name for image_part, name in MANAGERS.items() for i in images if image_part in i), None
    )
    if software and any(word in metadata["name"] for word in _HELPERS):
        return None
    if software is None and any(_NFD_IMAGE in image for image in images):
        software = NFD
    if software is None:
        return None
    return Manager(
        what=software,
        name=metadata["name"],
        namespace=metadata["namespace"],
        selector=spec.get("nodeSelector") or {},
        scheduled=item.get("status", {}).get("desiredNumberScheduled", 0),
        ours=OWNER in (metadata.get("annotations") or {}),
        release=helm_release(item),
        controller=next(
            (
                str(owner["kind"])
                for owner in metadata.get("ownerReferences") or []
                if owner.get("controller")
            ),
            "",
        ),
        reaches_node=_reaches_node(spec, software),
    )


def _reaches_node(spec: Json, what: str) -> bool:
    paths = [str((volume.get("hostPath") or {}).get("path") or "") for volume in _volumes(spec)]
    folders = [PurePosixPath(path).name for path in paths if path]
    return any(what == NFD or folder in _REGISTRATION for folder in folders)


def _volumes(spec: Json) -> list[Json]:
    volumes: list[Json] = spec.get("volumes") or []
    return volumes


def helm_release(item: Json) -> tuple[str, str] | None:
    """Return namespace and name of the Helm release in an object's annotations; None without them.

    Source: Helm 3, pkg/action/validate.go.
    """
    annotations = item["metadata"].get("annotations") or {}
    name, namespace = annotations.get(HELM_RELEASE), annotations.get(HELM_NAMESPACE)
    return (str(namespace), str(name)) if name and namespace else None
