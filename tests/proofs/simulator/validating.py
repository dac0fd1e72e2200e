"""Helpers for validating a pool on the embedded cluster, and for imitating GPU platforms."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import PoolsValidation, PoolValidation
from gpu_cluster.findings import lines
from gpu_cluster.inspection.observed_cluster import (
    deferrals,
    observe_validation,
    validation_difference,
)
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.inspect import pool_members
from gpu_cluster.nodes.record import RECORD
from gpu_cluster.nodes.startup_taint import has_startup_taint
from gpu_cluster.requests import write
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.validation import validation
from gpu_cluster.validation.inspect import PoolSeen
from tests.proofs.simulator.running import CLUSTER, NAMESPACE, Json, Running, declared, until

SPACES = "/api/v1/namespaces"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Stack:
    """Runs the validation of a pool in the same way as the stack's Command."""

    def __init__(self, cluster: Running) -> None:
        self.cluster = cluster
        self.document = self.of(declared())

    def of(self, given: Cluster, **changes: Any) -> PoolValidation:
        pool = resolve(given, "test").validation.pools[0]
        return replace(pool, **{"timeout_seconds": 30, **changes})

    def run(self, **changes: Any) -> dict[str, Json]:
        """Validate the pool; return the validation program's output by node."""
        result = asyncio.run(validation.validate(replace(self.document, **changes)))
        return {node["name"]: node for node in result["nodes"]}

    def forget(self) -> None:
        """Forget the results in the same way as the deletion of the stack's Command."""
        asyncio.run(validation.forget(self.request()))

    def request(self) -> PoolsValidation:
        """Return the request of the stack's Command."""
        return PoolsValidation(context=self.document.context, pools=(self.document,))

    def finding(self) -> str | None:
        """Return what an inspection reports about validation, as text, or None."""
        return "; ".join(lines(validation_difference(self._inspected()).findings)) or None

    def deferrals(self) -> dict[str, str]:
        """Return a text about each node with deferred GPUs.

        The text names the pods that use the GPUs.
        """
        return deferrals(self._inspected())

    def _inspected(self) -> list[PoolSeen]:
        async def find() -> list[PoolSeen]:
            async with connect(self.document.context) as client:
                nodes = await client.list("nodes")
                assert pool_members(nodes, self.document)
                sets = await client.list("daemonsets", base="/apis/apps")
                return await observe_validation(client, nodes, [self.document], sets)

        return asyncio.run(find())

    def record(self, node: str) -> Json:
        kept: Json = json.loads(self.cluster.node(node)["metadata"]["annotations"][RECORD])
        return kept

    def closed(self) -> list[str]:
        """Return the names of the nodes with the start-up taint, which a validation removes."""
        nodes = self.cluster.items("/api/v1/nodes")
        return sorted(node["metadata"]["name"] for node in nodes if has_startup_taint(node))

    def jobs(self) -> list[Json]:
        return self.cluster.items(JOBS)

    def leftovers(self) -> list[str]:
        """Return the names of the Jobs and pods in the namespace of the validation."""
        items = [*self.jobs(), *self.cluster.items(f"{SPACES}/{NAMESPACE}/pods")]
        return sorted(item["metadata"]["name"] for item in items)

    def running_pod(self, node: str) -> Json:
        """Wait until a node's validation pod runs, and return the pod."""
        selector = f"batch.kubernetes.io/job-name=validate-{node}"
        return until(
            lambda: [
                pod
                for pod in self.cluster.items(f"{SPACES}/{NAMESPACE}/pods", labelSelector=selector)
                if pod["status"].get("phase") == "Running"
            ],
            lambda pods: len(pods) == 1,
        )[0]

    def killed_while_running(self, node: str) -> int:
        """Validate in another process, kill it once a node's pod runs; return its exit status."""
        process = subprocess.Popen(
            [sys.executable, "-m", "gpu_cluster.validation.validation", "validate"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdin
        process.stdin.write(write(self.document))
        process.stdin.close()
        try:
            self.running_pod(node)
        finally:
            process.kill()
        return process.wait()


def given(platform: str, pool: Json | None = None, **sections: Any) -> Cluster:
    """Return a configuration of the same nodes with another platform."""
    pools = [{"name": "a100", "nodes": ["gpu-[1-3]"], "gpusPerNode": 8, **(pool or {})}]
    context = {"context": f"gpu-cluster-{CLUSTER}"}
    document = {"version": "v1", "kubernetes": context, "platform": platform, "pools": pools}
    return load({**document, **sections})


def serve(cluster: Running, name: str, labels: dict[str, str], **spec: Any) -> None:
    """Create a DaemonSet whose pods make the simulator advertise the GPUs of a platform."""
    containers = [{"name": "server", "image": "x"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **spec}}
    body = {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    cluster.request("POST", "/apis/apps/v1/namespaces/default/daemonsets", body)
