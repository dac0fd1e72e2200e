"""Node Feature Discovery on real and simulated nodes, from the objects of NVIDIA's chart.

The chart is rendered with this project's values. The NFD master and garbage collector run on a real
node. The NFD worker inspects its node every second instead of every minute.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.device_plugin.values import CONFIG_MAP
from gpu_cluster.settings.device_plugin import DEFAULT_CONFIG
from gpu_cluster_lab.simulator.api import ApiError
from gpu_cluster_lab.simulator.controller.discovery import PCI
from lab.helm import Helm
from lab.real import build, objects, stack
from lab.real.lab import REAL, SIMULATED, Json, Lab

#: Key of the test phase in which Node Feature Discovery runs instead of the device plugin.
KEY = "nfd"
NAMESPACE = "node-feature-discovery"
RELEASE = "nvidia-device-plugin"
WORKER = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
NAME = f"{RELEASE}-node-feature-discovery"
DISCOVERY = f"{RELEASE}-gpu-feature-discovery"
GROUP = "/apis/nfd.k8s-sigs.io/v1alpha1"
FEATURES = f"{GROUP}/namespaces/{NAMESPACE}/nodefeatures"
#: Taint that the NFD worker doesn't tolerate. It is set on the nodes of the cases before the first
#: case.
TAINT = {"key": "example.com/others", "value": "true", "effect": "NoSchedule"}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: API paths of the chart's objects, by kind.
PLACES = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{NAMESPACE}/rolebindings",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ConfigMap": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
    "DaemonSet": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
    "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    "Job": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
}
#: Workloads of the chart that no case needs at the start of the phase; cases deploy them later.
_LATER = (RELEASE, DISCOVERY, f"{RELEASE}-mps-control-daemon")
_HOOK = "helm.sh/hook"
_BUS = "/sys/bus/pci/devices"


def declared() -> Json:
    """Return a configuration with Node Feature Discovery whose rules may also set taints."""
    elsewhere = {"nodeSelector": {"kubernetes.io/hostname": REAL[1]}}
    document = stack.declared("a-context")
    document["devicePlugin"] |= {
        "gfd": True,
        "presence": "nfd",
        "extraValues": {
            "nfd": {
                "master": {**elsewhere, "enableTaints": True},
                "gc": elsewhere,
                "worker": {"config": {"core": {"sleepInterval": "1s"}}},
            }
        },
    }
    return document


@cache
def rendered() -> tuple[Json, ...]:
    """Return all objects of the device plugin's chart, which includes NFD; its CRDs come first."""
    cluster = load(declared())
    chart = build.charts() / RELEASE
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-helm-") as folder:
        helm = Helm(Path(folder))
        try:
            manifests = helm.render(chart, resolve(cluster, "test").platform.values(), NAMESPACE)
        finally:
            helm.close()
    return (*_definitions_in_chart(chart), *manifests)


def _definitions_in_chart(chart: Path) -> list[Json]:
    (archive,) = chart.glob("charts/node-feature-discovery-*.tgz")
    with tarfile.open(archive) as files:
        text = files.extractfile("node-feature-discovery/crds/nfd-api-crds.yaml") or io.BytesIO()
        return [item for item in yaml.safe_load_all(text) if item]


def place(item: Json) -> str:
    """Return the API path of a rendered object."""
    return f"{PLACES[item['kind']]}/{item['metadata']['name']}"


def hooks() -> list[Json]:
    """Return the Helm hooks that the chart runs after the release was deleted."""
    return [item for item in rendered() if _HOOK in (item["metadata"].get("annotations") or {})]


def ensure(lab: Lab, item: Json, path: str = "") -> None:
    """Create an object; ignore the error if it already exists."""
    with contextlib.suppress(ApiError):
        lab.request("POST", path or PLACES[item["kind"]], item)


def named(name: str) -> Json:
    """Return the DaemonSet or Deployment of the rendered chart that has this name."""
    kinds = ("DaemonSet", "Deployment")
    return next(
        manifest
        for manifest in rendered()
        if manifest["kind"] in kinds and manifest["metadata"]["name"] == name
    )


def drop(lab: Lab, path: str) -> None:
    """Delete an object with its dependents and wait until it is gone; ignore a missing object."""
    with contextlib.suppress(ApiError):
        lab.request("DELETE", path, propagationPolicy="Foreground")
    lab.until(f"{path}: deletion", lambda: lab.exists(path), lambda exists: not exists)


def install(lab: Lab) -> None:
    """Deploy Node Feature Discovery on nodes without its labels.

    Before that, remove the GPU label of all nodes, taint the nodes of the cases, and add GPUs to
    the real nodes' PCI buses.
    """
    _mark(lab, None)
    for name in (REAL[0], SIMULATED[0]):
        lab.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [TAINT]}})
    for name in REAL:
        plug(lab, name)
    lab.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for item in rendered():
        if item not in hooks() and item["metadata"]["name"] not in _LATER:
            lab.request("POST", PLACES[item["kind"]], item)
    lab.request("POST", PLACES["ConfigMap"], _plugin_configuration())


def _plugin_configuration() -> Json:
    """Return the ConfigMap with which this project configures device plugin and feature discovery.

    Its configuration named `file` disables the NodeFeature API.
    """
    text = objects.configuration()
    content = yaml.safe_load(text)
    content["flags"]["useNodeFeatureAPI"] = False
    files = {DEFAULT_CONFIG: text, "file": yaml.safe_dump(content)}
    return {"metadata": {"name": CONFIG_MAP}, "data": files}


def remove(lab: Lab) -> None:
    """Delete Node Feature Discovery if it is deployed, and restore the nodes' labels and taints."""
    if not lab.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        return
    drop(lab, f"/api/v1/namespaces/{NAMESPACE}")
    for item in rendered():
        if item["kind"] in ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"):
            drop(lab, place(item))
    _remove_marks(lab)
    _mark(lab, objects.GPU_NODES[PCI])
    for name in (REAL[0], SIMULATED[0]):
        lab.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    for node in lab.nodes.values():
        node.run(f"umount {_BUS}")


def _remove_marks(lab: Lab) -> None:
    """Remove the labels and annotations that NFD's master set on nodes.

    Otherwise only the chart's post-delete Job removes them (`hooks`).
    """
    for name in (*REAL, *SIMULATED):
        metadata = lab.node(name)["metadata"]
        body = {
            "labels": _null_values(
                metadata["labels"], "nvidia.com/", "feature.node.kubernetes.io/"
            ),
            "annotations": _null_values(
                metadata.get("annotations") or {}, "nfd.node.kubernetes.io/"
            ),
        }
        lab.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": body})


def _null_values(marks: Json, *prefixes: str) -> Json:
    return {key: None for key in marks if key.startswith(prefixes)}


def _mark(lab: Lab, value: str | None) -> None:
    for name in (*REAL, *SIMULATED):
        body: Any = {"metadata": {"labels": {PCI: value}}}
        lab.request("PATCH", f"/api/v1/nodes/{name}", body)


#: PCI IDs of an NVIDIA 3D controller (PCI code and ID assignment, class 03, subclass 02).
_DEVICE = {
    "class": "0x030200",
    "vendor": "0x10de",
    "device": "0x20b0",
    "subsystem_vendor": "0x10de",
    "subsystem_device": "0x134f",
}


def plug(lab: Lab, name: str) -> None:
    """Add NVIDIA GPUs to a real node's PCI bus, by files mounted over the kernel's /sys folder."""
    node = lab.nodes[name]
    lines = [f"mountpoint -q {_BUS} || mount -t tmpfs -o mode=755 tmpfs {_BUS}"]
    for index in range(node.mock.gpus):
        folder = f"{_BUS}/0000:{index + 1:02x}:00.0"
        lines.append(f"mkdir {folder}")
        lines += [f"echo {value} >{folder}/{file}" for file, value in _DEVICE.items()]
        lines.append(f"head -c 256 /dev/zero >{folder}/config")
    node.run("\n".join(lines))


def unplug(lab: Lab, name: str) -> None:
    """Remove all GPUs from a real node's PCI bus."""
    lab.nodes[name].run(f"rm -r {_BUS}/*")
