"""Control plane on which the simulated and the real GPU Operator get the same ClusterPolicy."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.machine.folders import cache_dir
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import api
from gpu_cluster_lab.simulator.control_plane import ControlPlane
from gpu_cluster_lab.simulator.controller import operands
from gpu_cluster_lab.simulator.controller.discovery import PCI
from gpu_cluster_lab.simulator.controller.operator_nodes import UPGRADE_STATE
from gpu_cluster_lab.simulator.hardware import hardware_of
from lab.real.build import operator_files
from lab.real.lab import Lab
from lab.real.operator import controller, policies
from lab.real.operator.controller import NAMESPACE

Json = dict[str, Any]
#: Name of the embedded cluster of this comparison; no stack has this name.
NAME = "real-operator-proof"
POLICY = f"{operands.POLICIES}/{operands.POLICY}"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
NODES = "/api/v1/nodes"
#: Labels that Node Feature Discovery sets on a node. The operating system selects the driver's
#: image (gpu-operator v24.3.0, controllers/object_controls.go, kernelFullVersion).
SYSTEM = {
    PCI: "true",
    "feature.node.kubernetes.io/kernel-version.full": "5.15.0-105-generic",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
}
#: Timeout in seconds for upgrade states. The real upgrade controller checks pods only every two
#: minutes (gpu-operator v24.3.0, controllers/upgrade_controller.go, plannedRequeueInterval).
UPGRADE_LIMIT = 200.0
#: Prefixes of the labels and annotations that operators set on nodes. `operands.MIG_STATE` is
#: ignored, because the MIG manager's program sets it, and this program doesn't run with the real
#: operator.
PREFIXES = ("nvidia.com/",)
SIMULATED_OPERATOR = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
WORKER = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}


@dataclass(frozen=True)
class Seen:
    """Objects and node labels that an operator created until a ClusterPolicy was ready.

    Attributes:
        objects: DaemonSets and RuntimeClasses by kind and name.
        order: Names of the DaemonSets in the order of their creation.
        nodes: NVIDIA's labels and annotations of each node, by node name.
        status: Status of the ClusterPolicy.
    """

    objects: dict[tuple[str, str], Json]
    order: list[str]
    nodes: dict[str, dict[str, str]]
    status: Json


@dataclass
class Site:
    """Embedded cluster on which a GPU Operator is tested.

    `lab` sends requests to its API server.
    """

    lab: Lab

    def apply(
        self, setting: policies.Setting, objects: list[Json], alive: Callable[[], None]
    ) -> Seen:
        """Apply a ClusterPolicy and return what the operator creates for it (see `applied`)."""
        with self.applied(setting, objects, alive) as version:
            return self._seen(version)

    @contextlib.contextmanager
    def applied(
        self, setting: policies.Setting, objects: list[Json], alive: Callable[[], None]
    ) -> Iterator[str]:
        """Create a ClusterPolicy, wait until it is ready, and delete everything at the end.

        Args:
            setting: Setting to which the policy belongs; its labels are set on the nodes.
            objects: The policy and its ConfigMaps.
            alive: Function that raises an error if the operator has ended.

        Yields:
            The resource version after which the operator's DaemonSets were created.
        """
        for name in policies.NODES:
            self._label(name, {**SYSTEM, **setting.labels})
        for item in objects:
            if item["kind"] == "ConfigMap":
                self.lab.request("POST", CONFIG_MAPS, item)
        version = self.lab.request("GET", DAEMON_SETS)["metadata"]["resourceVersion"]
        (policy,) = (item for item in objects if item["kind"] == "ClusterPolicy")
        self.lab.request("POST", operands.POLICIES, policy, fieldValidation="Strict")

        def state() -> str:
            alive()
            return self._state()

        try:
            self.lab.until(f"policy: {setting.name}", state, lambda found: found == "ready")
            # The operator's upgrade controller sets the upgrade state of each node if it manages
            # the driver.
            if policy["spec"]["driver"]["enabled"]:
                self.lab.until("upgrade states", self._upgraded, all, UPGRADE_LIMIT)
            yield version
        finally:
            self._clear(objects)

    def _state(self) -> str:
        status: Json = self.lab.request("GET", POLICY).get("status") or {}
        conditions = {item["type"]: item["status"] for item in status.get("conditions") or []}
        return str(status.get("state")) if conditions.get("Ready") == "True" else "notReady"

    def _upgraded(self) -> list[bool]:
        return [
            UPGRADE_STATE in self.lab.node(name)["metadata"]["labels"] for name in policies.NODES
        ]

    def _seen(self, version: str) -> Seen:
        kinds = (("DaemonSet", DAEMON_SETS), ("RuntimeClass", CLASSES))
        living = {item["metadata"]["uid"] for item in self.lab.request("GET", DAEMON_SETS)["items"]}
        return Seen(
            {
                (kind, item["metadata"]["name"]): item
                for kind, path in kinds
                for item in self.lab.request("GET", path)["items"]
                if item["metadata"].get("ownerReferences")
            },
            asyncio.run(_added_daemon_sets(self.lab, version, living)),
            {
                node["metadata"]["name"]: {
                    key: value
                    for place in ("labels", "annotations")
                    for key, value in (node["metadata"].get(place) or {}).items()
                    if key.startswith(PREFIXES) and key != operands.MIG_STATE
                }
                for node in self.lab.request("GET", NODES)["items"]
            },
            self.lab.request("GET", POLICY)["status"],
        )

    def _clear(self, objects: list[Json]) -> None:
        self.lab.request("DELETE", POLICY, propagationPolicy="Background")
        for item in objects:
            if item["kind"] == "ConfigMap":
                self.lab.request("DELETE", f"{CONFIG_MAPS}/{item['metadata']['name']}")
        for path in (DAEMON_SETS, CLASSES, f"/api/v1/namespaces/{NAMESPACE}/pods"):
            self.lab.until(f"{path}: deletion", partial(self._owned, path), lambda it: not it)
        self.strip()

    def strip(self) -> None:
        """Remove NVIDIA's labels and annotations from the nodes."""
        for node in self.lab.request("GET", NODES)["items"]:
            gone = {
                place: {
                    key: None
                    for key in node["metadata"].get(place) or {}
                    if key.startswith(PREFIXES)
                }
                for place in ("labels", "annotations")
            }
            self.lab.request("PATCH", f"{NODES}/{node['metadata']['name']}", {"metadata": gone})

    def _owned(self, path: str) -> list[str]:
        """Return the names of the operator's objects at an API path.

        The test's own objects are omitted.
        """
        kept = (*SIMULATED_OPERATOR.items(), *WORKER.items())
        return [
            item["metadata"]["name"]
            for item in self.lab.request("GET", path)["items"]
            if not set(kept) & set((item["metadata"].get("labels") or {}).items())
        ]

    def _label(self, node: str, labels: dict[str, str]) -> None:
        self.lab.request("PATCH", f"{NODES}/{node}", {"metadata": {"labels": labels}})

    @contextlib.contextmanager
    def simulated(self) -> Iterator[None]:
        """Run the simulated operator, which is active as long as a pod with its labels exists."""
        self.lab.request("POST", DEPLOYMENTS, _sample_workload("gpu-operator", SIMULATED_OPERATOR))
        try:
            yield
        finally:
            path = f"{DEPLOYMENTS}/gpu-operator"
            self.lab.request("DELETE", path, propagationPolicy="Foreground")
            self.lab.until("the simulated operator", partial(self.lab.exists, path), _is_gone)

    @contextlib.contextmanager
    def real(self, folder: Path) -> Iterator[controller.Controller]:
        """Run the process of the real operator and yield it."""
        with controller.running(self.lab.plane.kubeconfig, folder) as running:
            yield running


@contextlib.contextmanager
def running() -> Iterator[Site]:
    """Start an embedded cluster with simulated nodes and the GPU Operator's CRDs; yield it."""
    folder = cache_dir() / "real" / "operator"
    lab = Lab(ControlPlane(NAME), {})
    simulator.down(NAME)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        declared = policies.declared(policies.SETTINGS[0])
        simulator.start(NAME, hardware_of(declared.pools, declared.hosts))
        lab.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for file in sorted((operator_files() / "deployments/gpu-operator/crds").glob("*.yaml")):
            lab.request("POST", crds, yaml.safe_load(file.read_text()))
        lab.request("POST", DAEMON_SETS, _sample_workload("nfd-worker", WORKER))
        lab.until("definitions", partial(_is_served, lab), bool)
        for name in policies.NODES:
            lab.until(f"node {name}: discovery", partial(lab.node, name), _is_discovered)
        site = Site(lab)
        # Remove the GPU labels that the simulator has set. A setting may set them again.
        site.strip()
        yield site
    finally:
        simulator.down(NAME)
        shutil.rmtree(folder, ignore_errors=True)


async def _added_daemon_sets(lab: Lab, version: str, living: set[str]) -> list[str]:
    """Return the names of DaemonSets created after a resource version, in order.

    DaemonSets that no longer exist are omitted: the real operator may create a DaemonSet for a
    policy that was just deleted, which is then garbage-collected.
    """
    async with api.connect(lab.plane.access()) as client:
        events = client.watch(DAEMON_SETS, version, timeoutSeconds="1")
        return [
            event["object"]["metadata"]["name"]
            async for event in events
            if event["type"] == "ADDED" and event["object"]["metadata"]["uid"] in living
        ]


def _is_served(lab: Lab) -> bool:
    """Check that the API server serves the resource ClusterPolicy."""
    try:
        lab.request("GET", operands.POLICIES)
    except api.ApiError as error:
        # Status 404: the CRD doesn't exist yet. Status 429 or 503: "storage is (re)initializing".
        if error.code not in (404, 429, 503):
            raise
        return False
    return True


def _is_discovered(node: Json) -> bool:
    return PCI in node["metadata"]["labels"]


def _is_gone(exists: bool) -> bool:
    return not exists


def _sample_workload(name: str, labels: dict[str, str]) -> Json:
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "sample"}]},
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
