"""Helpers that change and read a running embedded cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from gpu_cluster.loading.loader import load
from gpu_cluster_lab.simulator import Embedded, api, marks, set_fault
from gpu_cluster_lab.simulator.control_plane import ControlPlane

Json = dict[str, Any]
T = TypeVar("T")

CLUSTER = "tests"
LIMIT = 30.0
NAMESPACE = "gpu-validation"
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets"
PLUGIN = {"app.kubernetes.io/name": "nvidia-device-plugin"}
CONTAINER = "nvidia-device-plugin-ctr"


def declared(*pools: Json, hosts: tuple[Json, ...] = (), platform: str = "device-plugin") -> Any:
    """Return a configuration; by default it has one pool of three nodes with eight GPUs each."""
    return load(
        {
            "version": "v1",
            "kubernetes": {"context": f"gpu-cluster-{CLUSTER}"},
            "platform": platform,
            "pools": list(pools) or [{"name": "a100", "nodes": ["gpu-[1-3]"], "gpusPerNode": 8}],
            "hosts": list(hosts),
        }
    )


def until(
    look: Callable[[], T], holds: Callable[[T], bool], limit: float = LIMIT, every: float = 0.05
) -> T:
    """Call `look` repeatedly until `holds` accepts the result; return the result.

    Fail after `limit` seconds.
    """
    deadline = time.monotonic() + limit
    while not holds(findings := look()):
        assert time.monotonic() < deadline, f"after {limit} s: {findings}"
        time.sleep(every)
    return findings


def _plugin(container: Json, **spec: Any) -> Json:
    discovered = {"feature.node.kubernetes.io/pci-10de.present": "true"}
    pod = {"nodeSelector": discovered, "containers": [container], **spec}
    template = {"metadata": {"labels": PLUGIN}, "spec": pod}
    return {
        "metadata": {"name": "plugin"},
        "spec": {"selector": {"matchLabels": PLUGIN}, "template": template},
    }


class Running:
    """Embedded cluster (real API server, simulated nodes) that runs, and requests to it."""

    def __init__(self, embedded: Embedded) -> None:
        self.embedded = embedded
        self.plane = ControlPlane(embedded.name)

    def request(self, method: str, path: str, body: Json | None = None, **params: str) -> Any:
        """Send one request to the API server and return the response."""
        kind = api.MERGE if method == "PATCH" else "application/json"

        async def run() -> Any:
            async with api.connect(self.plane.access()) as client:
                return await client.request(method, path, body, kind, **params)

        return asyncio.run(run())

    def node(self, name: str) -> Json:
        node: Json = self.request("GET", f"/api/v1/nodes/{name}")
        return node

    def gpus(self, name: str) -> tuple[str | None, str | None]:
        """Return a node's GPU count in capacity and in allocatable, as text."""
        status = self.node(name)["status"]
        return status["capacity"].get(marks.GPU), status["allocatable"].get(marks.GPU)

    def wait_gpus(self, name: str, capacity: str | None, allocatable: str | None) -> None:
        until(lambda: self.gpus(name), lambda value: value == (capacity, allocatable))

    def items(self, path: str, **params: str) -> list[Json]:
        result: list[Json] = self.request("GET", path, **params)["items"]
        return result

    def pods(self, **labels: str) -> list[Json]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return self.items("/api/v1/pods", labelSelector=selector)

    def plugin_pod(self, node: str) -> Json:
        """Wait for the device plugin's pod on a node; return the pod."""
        labels = {"app.kubernetes.io/name": "nvidia-device-plugin"}
        return until(
            lambda: [pod for pod in self.pods(**labels) if pod["spec"].get("nodeName") == node],
            lambda pods: bool(pods),
        )[0]

    def log(self, pod: Json, container: str = "") -> list[str]:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/log"
        named = container or pod["spec"]["containers"][0]["name"]
        return str(self.request("GET", path, container=named)).splitlines()

    def deploy_plugin(self) -> None:
        """Create the DaemonSets of device plugin and feature discovery, with the chart's labels."""
        self.discover()
        self.request("POST", DAEMON_SETS, _plugin({"name": CONTAINER, "image": "plugin"}))

    def share_plugin(self, visible: str, replicas: int) -> None:
        """Replace the device plugin by one that sees some GPUs and advertises replicas of them."""
        self.remove_plugin()
        until(lambda: self.pods(**PLUGIN), lambda pods: not pods)
        resources = [{"name": marks.GPU, "replicas": replicas}]
        file = json.dumps({"sharing": {"timeSlicing": {"resources": resources}}})
        body = {"metadata": {"name": "plugin"}, "data": {"shared": file}}
        self.request("POST", "/api/v1/namespaces/default/configmaps", body)
        environment = {"CONFIG_FILE": "/config/shared", "NVIDIA_VISIBLE_DEVICES": visible}
        container = {
            "name": CONTAINER,
            "image": "plugin",
            "env": [{"name": name, "value": value} for name, value in environment.items()],
        }
        volumes = [{"name": "config", "configMap": {"name": "plugin"}}]
        self.request("POST", DAEMON_SETS, _plugin(container, volumes=volumes))

    def discover(self) -> None:
        """Run Node Feature Discovery's worker with the chart's labels, until `clear` is called."""
        labels = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "worker", "image": "nfd"}]},
        }
        self.request(
            "POST",
            "/apis/apps/v1/namespaces/default/daemonsets",
            {
                "metadata": {"name": "nfd-worker", "labels": labels},
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            },
        )

    def remove_plugin(self) -> None:
        path = "/apis/apps/v1/namespaces/default/daemonsets/plugin"
        self.request("DELETE", path, propagationPolicy="Background")

    def validate(self, count: int = 1, gpus: int = 8, **selector: str) -> None:
        """Create validation pods like those of a stack: with one container for each device."""
        resources = {"limits": {marks.GPU: "1"}}
        containers = [
            {"name": f"gpu-{index}", "image": "sample", "resources": resources}
            for index in range(gpus)
        ]
        spec = {"restartPolicy": "Never", "nodeSelector": selector, "containers": containers}
        for index in range(count):
            meta = {"name": f"validation-{index}", "labels": {marks.VALIDATION: "a100"}}
            self.request(
                "POST", "/api/v1/namespaces/default/pods", {"metadata": meta, "spec": spec}
            )

    def hold(self, name: str, node: str, gpus: int, **spec: Any) -> Json:
        """Create a pod that uses GPUs of a node and doesn't belong to the stack."""
        resources = {"limits": {marks.GPU: str(gpus)}}
        body = {
            "metadata": {"name": name},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "containers": [{"name": "train", "image": "x", "resources": resources}],
                **spec,
            },
        }
        path = "/api/v1/namespaces/default/pods"
        self.request("POST", path, body)
        result: Json = until(
            lambda: self.request("GET", f"{path}/{name}"),
            lambda pod: pod["status"]["phase"] == "Running",
        )
        return result

    def validation_pods(self, *phases: str, count: int = 1) -> list[Json]:
        """Wait until `count` validation pods are in one of the phases, and return them."""
        return until(
            lambda: [
                pod
                for pod in self.items("/api/v1/pods", labelSelector=marks.VALIDATION)
                if pod["status"]["phase"] in phases
            ],
            lambda value: len(value) == count,
            limit=LIMIT + count / 2,
            every=0.05 + count / 400,
        )

    def clear(self) -> None:
        """Remove workloads, simulated faults, and what the device plugin has changed on nodes."""
        for path in (
            "/apis/apps/v1/namespaces/default/daemonsets",
            "/apis/batch/v1/namespaces/default/jobs",
        ):
            self.request("DELETE", path, propagationPolicy="Background")
        # Without grace: Kubernetes takes a minute to remove the pods of a node that is gone.
        self.request("DELETE", "/api/v1/namespaces/default/pods", gracePeriodSeconds="0")
        with contextlib.suppress(api.ApiError):
            self.request("DELETE", "/api/v1/namespaces/default/configmaps/plugin")
        for node in self.items("/api/v1/nodes"):
            if marks.FAULT in node["metadata"]["annotations"]:
                set_fault(self.embedded.name, node["metadata"]["name"])
        until(
            lambda: self.items("/api/v1/namespaces/default/pods", limit="1"),
            lambda value: not value,
            limit=2 * LIMIT,
            every=0.1,
        )
        until(
            lambda: self.items("/api/v1/nodes"),
            lambda nodes: all(
                node["status"]["allocatable"].get(marks.GPU, "0") == "0" for node in nodes
            ),
        )
