"""Node Feature Discovery on both kinds of nodes, by the objects of NVIDIA's chart.

It is rendered with our own program's values. Master and garbage collector run on a real node; the
worker looks at its node each second, not each minute.
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

#: Of a phase in which Node Feature Discovery is there in the plugin's place.
KEY = "nfd"
NAMESPACE = "node-feature-discovery"
RELEASE = "nvidia-device-plugin"
WORKER = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
NAME = f"{RELEASE}-node-feature-discovery"
DISCOVERY = f"{RELEASE}-gpu-feature-discovery"
GROUP = "/apis/nfd.k8s-sigs.io/v1alpha1"
FEATURES = f"{GROUP}/namespaces/{NAMESPACE}/nodefeatures"
#: Which its worker doesn't tolerate; on the nodes of the cases, before the first one.
TAINT = {"key": "example.com/others", "value": "true", "effect": "NoSchedule"}
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
#: Where objects of a kind lie.
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
#: DaemonSets of the chart that a phase doesn't begin with.
_LATER = (RELEASE, DISCOVERY, f"{RELEASE}-mps-control-daemon")
_HOOK = "helm.sh/hook"
_BUS = "/sys/bus/pci/devices"


def declared() -> Json:
    """A stack that brings Node Feature Discovery, whose rules may taint."""
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
    """All objects of the chart, its definitions first."""
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
    """Where the API server has it."""
    return f"{PLACES[item['kind']]}/{item['metadata']['name']}"


def hooks() -> list[Json]:
    """What the chart runs after a release has gone."""
    return [item for item in rendered() if _HOOK in (item["metadata"].get("annotations") or {})]


def ensure(lab: Lab, item: Json, path: str = "") -> None:
    """Create an object, unless it is there."""
    with contextlib.suppress(ApiError):
        lab.request("POST", path or PLACES[item["kind"]], item)


def named(name: str) -> Json:
    """A workload of the chart."""
    kinds = ("DaemonSet", "Deployment")
    return next(it for it in rendered() if it["kind"] in kinds and it["metadata"]["name"] == name)


def drop(lab: Lab, path: str) -> None:
    """Delete an object and what it made, and wait for it; one that is gone is none."""
    with contextlib.suppress(ApiError):
        lab.request("DELETE", path, propagationPolicy="Foreground")
    lab.until(f"{path}: deletion", lambda: lab.exists(path), lambda exists: not exists)


def install(lab: Lab) -> None:
    """Take the nodes' labels, taint those of the cases, and bring Node Feature Discovery."""
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
    """As our program makes it for plugin and feature discovery; ``file``: without NodeFeatures."""
    text = objects.configuration()
    content = yaml.safe_load(text)
    content["flags"]["useNodeFeatureAPI"] = False
    files = {DEFAULT_CONFIG: text, "file": yaml.safe_dump(content)}
    return {"metadata": {"name": CONFIG_MAP}, "data": files}


def remove(lab: Lab) -> None:
    """Take it away, where it is there; the nodes have their labels again, and no taint of its."""
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
    """What masters wrote on nodes outlives them, but for the chart's last job (`hooks`)."""
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


#: A 3D controller of NVIDIA's (PCI code and ID assignment, class 03, subclass 02).
_DEVICE = {
    "class": "0x030200",
    "vendor": "0x10de",
    "device": "0x20b0",
    "subsystem_vendor": "0x10de",
    "subsystem_device": "0x134f",
}


def plug(lab: Lab, name: str) -> None:
    """GPUs on a real node's PCI bus: files in place of the kernel's."""
    node = lab.nodes[name]
    lines = [f"mountpoint -q {_BUS} || mount -t tmpfs -o mode=755 tmpfs {_BUS}"]
    for index in range(node.mock.gpus):
        folder = f"{_BUS}/0000:{index + 1:02x}:00.0"
        lines.append(f"mkdir {folder}")
        lines += [f"echo {value} >{folder}/{file}" for file, value in _DEVICE.items()]
        lines.append(f"head -c 256 /dev/zero >{folder}/config")
    node.run("\n".join(lines))


def unplug(lab: Lab, name: str) -> None:
    """Take all GPUs from a real node's PCI bus."""
    lab.nodes[name].run(f"rm -r {_BUS}/*")
