"""Stopping and restarting the platform's GPU pods on a node around a driver change.

A DaemonSet recreates deleted pods immediately, and these pods keep the driver's kernel modules in
use (NVIDIA/gpu-operator issue 2166). A NoSchedule taint keeps them off the node and does not affect
running pods of others: the DaemonSet controller only ends running pods for NoExecute (kubernetes
v1.34 pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod).
"""

from __future__ import annotations

from components.desired.rollout import Operands
from components.kubernetes.api import Client, ClusterError, Json, Refused
from components.nodes import drain
from components.nodes.taints import write_taints
from policies.faults import Fault

TAINT = {"key": "gpu-cluster/rollout", "effect": "NoSchedule"}
MANAGER = "gpu-cluster-rollout"
GONE = 404


def is_operand(pod: Json, operands: Operands) -> bool:
    """Return whether a pod belongs to a DaemonSet of the platform.

    Args:
        pod: Pod of the node.
        operands: Labels and namespaces that identify the platform's pods.
    """
    meta = pod["metadata"]
    if (drain.owner_of(pod) or {}).get("kind") != "DaemonSet":
        return False
    labels = meta.get("labels", {})
    serves = all(labels.get(key) == value for key, value in operands.labels.items())
    return meta["namespace"] in operands.spaces or (
        meta["namespace"] == operands.namespace and serves
    )


async def off(client: Client, name: str, operands: Operands, limit: float) -> None:
    """Taint a node against GPU pods, delete its GPU pods and wait until they are gone.

    Pods that tolerate every taint are recreated; the host's script then reports that the modules
    are in use.

    Raises:
        ClusterError: Pods are still there after `limit` seconds.
    """
    await _write(client, name, [], [TAINT])
    going: dict[str, Json] = {}

    async def listed() -> list[Json]:
        pods = await client.list("pods", fieldSelector=f"spec.nodeName={name}")
        return [pod for pod in pods if is_operand(pod, operands)]

    going = {pod["metadata"]["uid"]: pod for pod in await listed()}
    for pod in going.values():
        meta = pod["metadata"]
        try:
            await client.request("DELETE", f"namespaces/{meta['namespace']}/pods/{meta['name']}")
        except Refused as error:
            if error.code != GONE:
                raise

    async def gone() -> bool:
        return not any(pod["metadata"]["uid"] in going for pod in await listed())

    if not await drain.until(gone, limit):
        found = f"GPU pods still there after {limit:.0f} s: {drain.named(list(going.values()))}"
        cure = "look at their finalizers and at the kubelet, then run `up` again"
        raise ClusterError(Fault(f"node {name}", found, "none while its driver changes", cure))


async def on(client: Client, name: str) -> None:
    """Remove the taint, so that the node's GPU pods are recreated."""
    await _write(client, name, [TAINT], [])


async def _write(client: Client, name: str, recorded: list[Json], wanted: list[Json]) -> None:
    node = await drain.node_of(client, name)
    if node is not None:
        await write_taints(client, node, recorded, wanted, MANAGER)
