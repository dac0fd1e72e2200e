"""Stop and restart the GPU pods of DaemonSets on a node before and after a driver change.

The pods belong to the platform or to other software that uses GPUs, such as an exporter. A drain
leaves pods of DaemonSets alone (NVIDIA/gpu-operator issue 2570). A DaemonSet recreates deleted pods
immediately, and these pods keep the driver's kernel modules in use (issue 2166). A NoSchedule taint
keeps recreated pods off the node and does not affect other running pods: the DaemonSet controller
only ends running pods for NoExecute (kubernetes v1.34 pkg/controller/daemon/daemon_controller.go,
NodeShouldRunDaemonPod).
"""

from __future__ import annotations

from gpu_cluster.desired.rollout import Operands
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused
from gpu_cluster.nodes import drain
from gpu_cluster.nodes.taints import write_taints
from gpu_rules.faults import Fault

RUNTIME_CLASS = "nvidia"
"""Prefix of the names of RuntimeClasses that give a pod access to GPUs."""
DEVICES, VISIBLE = "/dev/nvidia", "NVIDIA_VISIBLE_DEVICES"
GPU_DOMAINS = ("nvidia.com/", "tencent.com/vcuda-")
"""Prefixes of the names of GPU resources."""
TAINT = {"key": "gpu-cluster/rollout", "effect": "NoSchedule"}
MANAGER = "gpu-cluster-rollout"
GONE = 404


def is_operand(pod: Json, operands: Operands) -> bool:
    """Return whether a pod of a DaemonSet belongs to the platform or uses GPUs.

    Args:
        pod: Pod of the node.
        operands: Labels and namespaces that identify the platform's pods.
    """
    meta = pod["metadata"]
    if (drain.owner_of(pod) or {}).get("kind") != "DaemonSet":
        return False
    labels = meta.get("labels", {})
    serves = all(labels.get(key) == value for key, value in operands.labels.items())
    return (
        meta["namespace"] in operands.spaces
        or (meta["namespace"] == operands.namespace and serves)
        or is_gpu_daemon(pod)
    )


def is_gpu_daemon(pod: Json) -> bool:
    """Return whether a pod of a DaemonSet uses GPUs."""
    return (drain.owner_of(pod) or {}).get("kind") == "DaemonSet" and uses_gpus(pod)


def uses_gpus(pod: Json) -> bool:
    """Return whether a pod may use GPUs, with or without a resource request for GPUs.

    Pods get GPUs by a resource, a runtime class, the variable of NVIDIA's runtime, or a device of
    the host.
    """
    spec = pod["spec"]
    if str(spec.get("runtimeClassName") or "").startswith(RUNTIME_CLASS):
        return True
    paths = (
        str((volume.get("hostPath") or {}).get("path")) for volume in spec.get("volumes") or []
    )
    if any(path.startswith(DEVICES) for path in paths):
        return True
    return any(map(_sees_gpus, spec.get("containers") or []))


def _sees_gpus(container: Json) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    if any(name.startswith(GPU_DOMAINS) and str(amount) != "0" for name, amount in limits.items()):
        return True
    visible = (
        variable for variable in container.get("env") or [] if variable.get("name") == VISIBLE
    )
    return any(variable.get("value") not in ("", "none", "void") for variable in visible)


async def off(client: Client, name: str, operands: Operands, limit: float) -> None:
    """Taint a node against GPU pods, delete its GPU pods and wait until they are gone.

    Pods that tolerate every taint are recreated; the host's script then reports that the modules
    are in use.

    Raises:
        ClusterError: Pods are still there after `limit` seconds.
    """
    await _write_taints(client, name, [], [TAINT])
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
        cure = "check their finalizers and the kubelet, then run `up` again"
        raise ClusterError(Fault(f"node {name}", found, "none while its driver changes", cure))


async def on(client: Client, name: str) -> None:
    """Remove the taint against GPU pods, so that DaemonSets recreate their pods on the node."""
    await _write_taints(client, name, [TAINT], [])


async def _write_taints(
    client: Client, name: str, recorded: list[Json], taints: list[Json]
) -> None:
    node = await drain.node_of(client, name)
    if node is not None:
        await write_taints(client, node, lambda _: recorded, taints, MANAGER)
