"""The pods that serve a node's GPUs: off before its driver changes, on again after it.

A DaemonSet's pods come again at once where they are only deleted, and they hold the driver's
modules (NVIDIA/gpu-operator issue 2166). A taint with NoSchedule keeps them off and leaves pods of
others where they are: the controller ends what runs for NoExecute only (kubernetes v1.34
pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod).
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
    """Whether a pod is a DaemonSet's of the platform.

    Args:
        pod: of the node.
        operands: what tells the platform's pods from others.
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
    """Keeps the node's GPU pods off it, and waits until they are gone.

    One that tolerates every taint comes again; then the host's script finds the modules in use.

    Raises:
        ClusterError: pods that are still there after ``limit`` seconds.
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
    """Lets the node's GPU pods come again."""
    await _write(client, name, [TAINT], [])


async def _write(client: Client, name: str, recorded: list[Json], wanted: list[Json]) -> None:
    node = await drain.node_of(client, name)
    if node is not None:
        await write_taints(client, node, recorded, wanted, MANAGER)
