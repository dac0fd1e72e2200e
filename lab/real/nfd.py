"""Node Feature Discovery on both kinds of nodes, from the objects of NVIDIA's chart.

The chart is rendered with this project's values. Master and garbage collector run on a real node.
The worker inspects its node every second instead of every minute.
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

from components.desired.resolve import resolve
from components.loading.loader import load
from components.platforms.device_plugin.values import CONFIG_MAP
from components.settings.device_plugin import DEFAULT_CONFIG
from lab.helm import Helm
from lab.real import build, objects, stack
from lab.real.lab import REAL, SIMULATED, Json, Lab
from lab.simulator.api import ApiError
from lab.simulator.controller.discovery import PCI

#: Key of a phase in which Node Feature Discovery runs instead of the device plugin.
KEY = "nfd"
NAMESPACE = "node-feature-discovery"
RELEASE = "nvidia-device-plugin"
WORKER = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
NAME = f"{RELEASE}-node-feature-discovery"
DISCOVERY = f"{RELEASE}-gpu-feature-discovery"
GROUP = "/apis/nfd.k8s-sigs.io/v1alpha1"
FEATURES = f"{GROUP}/namespaces/{NAMESPACE}/nodefeatures"
#: Taint that the worker doesn't tolerate, on the nodes of the cases before the first case.
TAINT = {"key": "example.com/others", "value": "true", "effect": "NoSchedule"}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: API paths of the objects by kind.
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
#: Workloads of the chart that are not yet deployed at the start of a phase.
_LATER = (RELEASE, DISCOVERY, f"{RELEASE}-mps-control-daemon")
_HOOK = "helm.sh/hook"
_BUS = "/sys/bus/pci/devices"


def declared() -> Json:
    """Return a stack with Node Feature Discovery, whose rules may set taints."""
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
    """Return all objects of the chart, with its CRDs first."""
    cluster = load(declared())
    chart = build.charts() / RELEASE
    with tempfile.TemporaryDirectory(prefix="gpu-cluster-helm-") as folder:
        helm = Helm(Path(folder))
        try:
            made = helm.render(chart, resolve(cluster, "test").platform.values(), NAMESPACE)
        finally:
            helm.close()
    return (*_definitions(chart), *made)


def _definitions(chart: Path) -> list[Json]:
    (archive,) = chart.glob("charts/node-feature-discovery-*.tgz")
    with tarfile.open(archive) as files:
        text = files.extractfile("node-feature-discovery/crds/nfd-api-crds.yaml") or io.BytesIO()
        return [item for item in yaml.safe_load_all(text) if item]


def place(item: Json) -> str:
    """Return an object's path on the API server."""
    return f"{PLACES[item['kind']]}/{item['metadata']['name']}"


def hooks() -> list[Json]:
    """Return the hooks that the chart runs after a release was deleted."""
    return [item for item in rendered() if _HOOK in (item["metadata"].get("annotations") or {})]


def ensure(lab: Lab, item: Json, path: str = "") -> None:
    """Create an object if it doesn't exist."""
    with contextlib.suppress(ApiError):
        lab.request("POST", path or PLACES[item["kind"]], item)


def named(name: str) -> Json:
    """Return a DaemonSet or Deployment of the chart by name."""
    kinds = ("DaemonSet", "Deployment")
    return next(it for it in rendered() if it["kind"] in kinds and it["metadata"]["name"] == name)


def drop(lab: Lab, path: str) -> None:
    """Delete an object with its dependents and wait; a missing object is no error."""
    with contextlib.suppress(ApiError):
        lab.request("DELETE", path, propagationPolicy="Foreground")
    lab.until(f"{path}: deletion", lambda: lab.exists(path), lambda exists: not exists)


def install(lab: Lab) -> None:
    """Remove the nodes' labels, taint the cases' nodes, and deploy Node Feature Discovery."""
    _mark(lab, None)
    for name in (REAL[0], SIMULATED[0]):
        lab.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [TAINT]}})
    for name in REAL:
        plug(lab, name)
    lab.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for item in rendered():
        if item not in hooks() and item["metadata"]["name"] not in _LATER:
            lab.request("POST", PLACES[item["kind"]], item)
    lab.request("POST", PLACES["ConfigMap"], _configurations())


def _configurations() -> Json:
    """Return the ConfigMap that this project creates for plugin and feature discovery.

    The configuration `file` disables the NodeFeature API.
    """
    text = objects.configuration()
    content = yaml.safe_load(text)
    content["flags"]["useNodeFeatureAPI"] = False
    files = {DEFAULT_CONFIG: text, "file": yaml.safe_dump(content)}
    return {"metadata": {"name": CONFIG_MAP}, "data": files}


def remove(lab: Lab) -> None:
    """Delete Node Feature Discovery if it is deployed; restore the nodes' labels and taints."""
    if not lab.exists(f"/api/v1/namespaces/{NAMESPACE}"):
        return
    drop(lab, f"/api/v1/namespaces/{NAMESPACE}")
    for item in rendered():
        if item["kind"] in ("CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"):
            drop(lab, place(item))
    _forget(lab)
    _mark(lab, objects.GPU_NODES[PCI])
    for name in (REAL[0], SIMULATED[0]):
        lab.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    for node in lab.nodes.values():
        node.run(f"umount {_BUS}")


def _forget(lab: Lab) -> None:
    """Remove what masters wrote on nodes, which only the chart's last Job removes (`hooks`)."""
    for name in (*REAL, *SIMULATED):
        metadata = lab.node(name)["metadata"]
        body = {
            "labels": _nulls(metadata["labels"], "nvidia.com/", "feature.node.kubernetes.io/"),
            "annotations": _nulls(metadata.get("annotations") or {}, "nfd.node.kubernetes.io/"),
        }
        lab.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": body})


def _nulls(found: Json, *prefixes: str) -> Json:
    return {key: None for key in found if key.startswith(prefixes)}


def _mark(lab: Lab, value: str | None) -> None:
    for name in (*REAL, *SIMULATED):
        body: Any = {"metadata": {"labels": {PCI: value}}}
        lab.request("PATCH", f"/api/v1/nodes/{name}", body)


#: 3D controller of NVIDIA (PCI code and ID assignment, class 03, subclass 02).
_DEVICE = {
    "class": "0x030200",
    "vendor": "0x10de",
    "device": "0x20b0",
    "subsystem_vendor": "0x10de",
    "subsystem_device": "0x134f",
}


def plug(lab: Lab, name: str) -> None:
    """Add GPUs to a real node's PCI bus, as files that replace those of the kernel."""
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
