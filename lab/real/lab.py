"""Test cluster: two real and two simulated nodes on one embedded control plane."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator import api, hosts
from gpu_cluster_lab.simulator.control_plane import ControlPlane
from gpu_cluster_lab.simulator.hardware import hardware_of
from gpu_cluster_lab.simulator.hosts import rootfs
from gpu_cluster_lab.simulator.hosts.locks import locked
from gpu_cluster_lab.simulator.ports import free_ports
from lab.real import build, cgroups, image, objects
from lab.real.mock import Mock
from lab.real.node import Node, RealError
from lab.real.parts import MOCK, PARTS

Json = dict[str, Any]
T = TypeVar("T")
#: Name of the embedded cluster of these tests; no stack has this name.
NAME = "real-parts-proof"
REAL = ("real-1", "real-2")
SIMULATED = ("sim-1", "sim-2")
GPUS = 8
LIMIT = 90.0
#: Seconds to wait for the lock file, which another run of these tests holds until it has ended.
LOCK_LIMIT = 10.0
#: Function that returns container images by name; it gets the paths of all built programs by name.
Images = Callable[[Mapping[str, Path]], Mapping[str, image.LayeredImage]]
#: Taint that a kubelet sets while it waits for its cloud controller (k8s.io/cloud-provider v0.34.4,
#: api/well_known_taints.go).
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"


def declared() -> tuple[Cluster, Cluster]:
    """Return two configurations: one with the real nodes as hosts, one with the simulated nodes."""
    common: Json = {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{NAME}"},
        "platform": "device-plugin",
    }
    real = {
        **common,
        "pools": [{"name": "real", "nodes": list(REAL), "gpusPerNode": GPUS}],
        "runtime": {"systemdCgroup": False},
        "hosts": [
            {
                "name": name,
                "address": f"198.18.0.{index}",
                "hostKey": hosts.host_public_key(name),
                "role": "gpu-worker",
            }
            for index, name in enumerate(REAL, 1)
        ],
    }
    pool = {"name": "sim", "nodes": list(SIMULATED), "gpusPerNode": GPUS}
    return load(real), load({**common, "pools": [pool]})


@dataclass
class Lab:
    """Running test cluster.

    Attributes:
        plane: The embedded control plane.
        nodes: Real nodes by name.
        said: Last output of this project's validation program about a node, by node name.
    """

    plane: ControlPlane
    nodes: dict[str, Node]
    said: dict[str, Json] = field(default_factory=dict)

    def request(self, method: str, path: str, body: Json | None = None, **params: str) -> Any:
        """Send one request to the API server and return the response."""
        kind = api.MERGE if method == "PATCH" else "application/json"

        async def ask() -> Any:
            async with api.connect(self.plane.access()) as client:
                return await client.request(method, path, body, kind, **params)

        return asyncio.run(ask())

    def node(self, name: str) -> Json:
        """Return a Node object."""
        node: Json = self.request("GET", f"/api/v1/nodes/{name}")
        return node

    def offered(self, name: str) -> dict[str, tuple[int, int]]:
        """Return (capacity, allocatable) of each NVIDIA resource of a node, by resource name."""
        status = self.node(name)["status"]
        allocatable = status.get("allocatable") or {}
        return {
            resource: (int(count), int(allocatable.get(resource, "0")))
            for resource, count in (status.get("capacity") or {}).items()
            if resource.startswith("nvidia.com/")
        }

    def wait_offered(self, name: str, resource: str, amounts: tuple[int, int]) -> None:
        """Wait until a resource of a node has the capacity and allocatable amount `amounts`."""
        self.until(
            f"node {name}: {resource}",
            lambda: self.offered(name),
            lambda offered: offered.get(resource) == amounts,
        )

    def wait_ready(self, name: str) -> None:
        """Wait until a node is Ready and has no NoSchedule taint."""
        self.until(f"node {name}", lambda: self._ready(name), bool)

    def adopt(self, name: str) -> None:
        """Do what a cloud controller does for a new node: set its address and remove its taint."""
        path = f"/api/v1/nodes/{name}"
        self.until(f"node {name}: registration", lambda: self.exists(path), bool)
        address = {"type": "InternalIP", "address": "127.0.0.1"}
        self.request("PATCH", f"{path}/status", {"status": {"addresses": [address]}})
        taints = self.node(name)["spec"].get("taints") or []
        other_taints = [taint for taint in taints if taint["key"] != UNINITIALIZED]
        self.request("PATCH", path, {"spec": {"taints": other_taints}})

    def _ready(self, name: str) -> bool:
        try:
            node = self.node(name)
        except api.ApiError:
            return False
        taints = node["spec"].get("taints") or []
        return not any(taint["effect"] == "NoSchedule" for taint in taints) and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions") or []
        )

    def pod(self, name: str) -> Json:
        """Return a pod in the namespace `default`."""
        pod: Json = self.request("GET", f"/api/v1/namespaces/default/pods/{name}")
        return pod

    def create(self, pod: Json) -> Json:
        """Create a pod in the namespace `default`."""
        created: Json = self.request("POST", "/api/v1/namespaces/default/pods", pod)
        return created

    def delete(self, name: str) -> None:
        """Delete a pod and wait until it no longer exists."""
        path = f"/api/v1/namespaces/default/pods/{name}"
        with contextlib.suppress(api.ApiError):
            self.request("DELETE", path, gracePeriodSeconds="1")
        self.until(f"pod {name}: deletion", lambda: self.exists(path), lambda exists: not exists)

    def exists(self, path: str) -> bool:
        """Check that an object exists on the API server."""
        try:
            self.request("GET", path)
        except api.ApiError as error:
            if error.code != 404:
                raise
            return False
        return True

    def wait_phase(self, name: str, *phases: str) -> Json:
        """Wait until a pod is in one of the phases; return the pod."""
        return self.until(
            f"pod {name}", lambda: self.pod(name), lambda pod: pod["status"].get("phase") in phases
        )

    def pods(self, node: str, **labels: str) -> list[Json]:
        """Return the pods on a node that have some labels; omit pods that are being deleted."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        response = self.request("GET", "/api/v1/pods", labelSelector=selector)
        return [
            pod
            for pod in response["items"]
            if pod["spec"].get("nodeName") == node and "deletionTimestamp" not in pod["metadata"]
        ]

    def until(
        self,
        subject: str,
        inspect: Callable[[], T],
        holds: Callable[[T], bool],
        limit: float = LIMIT,
    ) -> T:
        """Call `inspect` repeatedly until `holds` accepts its result; return that result.

        Raises:
            RealError: The time limit has passed; the message has the last result and the kubelets'
                last log lines.
        """
        deadline = time.monotonic() + limit
        while not holds(state := inspect()):
            if time.monotonic() > deadline:
                state_text = json.dumps(state, default=str)[-600:]
                logs = "\n".join(
                    f"{node.name}: {node.log('kubelet')}" for node in self.nodes.values()
                )
                raise RealError(
                    f"{subject}: found {state_text}; wanted: another state within {limit:.0f} s; "
                    f"cure: see the kubelets' last lines\n{logs}"
                )
            time.sleep(0.2)
        return state


@contextlib.contextmanager
def running(
    limit: float = LOCK_LIMIT, without: Collection[str] = (), images: Images | None = None
) -> Iterator[Lab]:
    """Start the test cluster and yield it; at the end, remove everything, also after errors.

    Args:
        limit: Seconds to wait for another run of these tests.
        without: Go modules of components that the tests don't use, and that are not built.
        images: Further images of the real nodes.

    Raises:
        HostError: Another run of these tests is active; node names and networks exist only once per
            machine.
    """
    with locked(cache_dir() / "real" / "run.lock", limit):
        yield from _run_lab(without, images)


def _run_lab(without: Collection[str], images: Images | None) -> Iterator[Lab]:
    modules = (real_part.module for real_part in (*PARTS, MOCK) if real_part.module not in without)
    built_parts = build.build(*modules)
    lower = rootfs.debian_root(lambda line: print(line, flush=True))
    work = cache_dir() / "real" / "nodes"
    work.mkdir(parents=True, exist_ok=True)
    archive = work / "image.tar"
    image.write(archive, built_parts, images(built_parts) if images else {})
    real, simulated = declared()
    lab = Lab(ControlPlane(NAME), {})
    try:
        simulator.down(NAME)
        for name in REAL:
            cgroups.remove(name)
        simulator.start(NAME, hardware_of(simulated.pools, simulated.hosts))
        # In a real cluster, Node Feature Discovery sets this label. Here the test sets it on
        # simulated nodes; the kubelets of real nodes set it themselves.
        for name in SIMULATED:
            labels = {"metadata": {"labels": objects.GPU_NODES}}
            lab.request("PATCH", f"/api/v1/nodes/{name}", labels)
        for name in REAL:
            (port,) = free_ports(1)
            node = Node(name, work / name, lower, built_parts, Mock(name), port)
            lab.nodes[name] = node
            host = next(
                host_of_node
                for host_of_node in resolve(real, NAME).hosts
                if host_of_node.node == name
            )
            node.start(host, lab.plane.access(), archive)
        for name in REAL:
            lab.adopt(name)
            lab.wait_ready(name)
        yield lab
    finally:
        for node in lab.nodes.values():
            node.stop()
        simulator.down(NAME)
        archive.unlink(missing_ok=True)
