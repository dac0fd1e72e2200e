"""Cordon, drain and uncordon a node.

A node that this program cordons gets the annotation `CORDONED`. A node that somebody else cordoned
stays cordoned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused
from gpu_cluster.nodes.consent import refused_loss
from gpu_cluster.nodes.gpu_holders import FINISHED
from gpu_cluster.nodes.inspect import CORDONED
from gpu_rules.faults import Fault
from gpu_rules.printable import counted, printable, shortened

MERGE = "application/merge-patch+json"
NAMED = 5
"""Maximum number of pods that a message names; other pods are only counted."""
FIRST, PAUSE = 0.25, 2.0
"""Shortest and longest pause between two checks of a condition, in seconds."""


async def node_of(client: Client, name: str) -> Json | None:
    """Return the Node object, or None if the host is not a node of the cluster (yet)."""
    return await client.find(f"nodes/{name}")


def cordoned_by_us(node: Json) -> bool:
    """Return whether this program cordoned the node, in this run or in one that was interrupted."""
    return CORDONED in node["metadata"].get("annotations", {})


async def cordon(client: Client, node: Json, mark: str) -> None:
    """Cordon a node, unless it is already unschedulable."""
    if node["spec"].get("unschedulable"):
        return
    body = {"metadata": {"annotations": {CORDONED: mark}}, "spec": {"unschedulable": True}}
    await _patch_node(client, node, body)


async def uncordon(client: Client, node: Json) -> None:
    """Uncordon a node if this program cordoned it."""
    if cordoned_by_us(node):
        body = {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}}
        await _patch_node(client, node, body)


async def _patch_node(client: Client, node: Json, body: Json) -> None:
    name = node["metadata"]["name"]
    await client.request("PATCH", f"nodes/{name}", body=body, content_type=MERGE)


def to_evict(pods: list[Json]) -> list[Json]:
    """Return the pods that must be evicted before a node goes down, as `kubectl drain` does.

    Pods of a DaemonSet, mirror pods and finished pods are not evicted (kubectl 1.34,
    pkg/drain/filters.go).
    """
    return [
        pod
        for pod in pods
        if pod.get("status", {}).get("phase") not in FINISHED
        and "kubernetes.io/config.mirror" not in pod["metadata"].get("annotations", {})
        and (owner_of(pod) or {}).get("kind") != "DaemonSet"
    ]


def owner_of(pod: Json) -> Json | None:
    """Return the owner that will recreate a pod, or None if the pod has no controller."""
    owners: list[Json] = pod["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)


def workload_of(pod: Json) -> tuple[str, str, str]:
    """Return namespace, name and kind of a pod's workload: its Deployment, other owner, or itself.

    The label of the hash is on pods of a Deployment's ReplicaSet, whose name ends with its value
    (Kubernetes documentation, "Deployments", "Pod-template-hash label").
    """
    metadata = pod["metadata"]
    owner = owner_of(pod)
    if owner is None:
        return metadata["namespace"], metadata["name"], "Pod"
    kind, name = str(owner.get("kind", "")), str(owner.get("name", ""))
    template_hash = metadata.get("labels", {}).get("pod-template-hash")
    if kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
        kind, name = "Deployment", name.removesuffix(f"-{template_hash}")
    return metadata["namespace"], name, kind


def losses(pods: list[Json], consent: Collection[str]) -> str:
    """Return text that names pods which would lose data or not be recreated; empty if none.

    Args:
        pods: Pods to evict.
        consent: Losses that the user accepts (`rollout.evict`).
    """
    unmanaged = [pod for pod in pods if owner_of(pod) is None]
    local = [pod for pod in pods if any("emptyDir" in v for v in pod["spec"].get("volumes") or [])]
    losses_by_consent = (
        ("unmanaged", "pods that no controller creates again", unmanaged),
        ("empty-dir", "pods that lose their emptyDir volumes", local),
    )
    return "; ".join(
        f"{loss}: {named(pods_of_kind)}"
        for kind, loss, pods_of_kind in losses_by_consent
        if pods_of_kind and kind not in consent
    )


def named(pods: list[Json]) -> str:
    """Return text with the names of the first pods in a list and the number of the rest."""
    names = sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)
    return printable(shortened(names, NAMED))


async def drain(client: Client, name: str, limit: float, consent: Collection[str]) -> None:
    """Evict a node's pods and wait until they are gone.

    Args:
        limit: Maximum number of seconds to wait.
        consent: Losses that the user accepts (`rollout.evict`).

    Raises:
        ClusterError: Pods would lose something without `consent`, or are still there after `limit`
            seconds (because of a PodDisruptionBudget or a finalizer). The error names the pods.
    """

    async def remaining() -> list[Json]:
        return to_evict(await client.list("pods", fieldSelector=f"spec.nodeName={name}"))

    going = await remaining()
    if lost := losses(going, consent):
        raise ClusterError(refused_loss(name, lost))

    async def step() -> bool:
        nonlocal going
        # A pod that was created in the meantime, and would lose data, is not evicted; the error
        # names it.
        await asyncio.gather(*(_evict(client, p) for p in going if not losses([p], consent)))
        going = await remaining()
        return not going

    if not await until(step, limit):
        raise ClusterError(
            Fault(
                f"node {name}",
                f"{counted(len(going), 'pod')} still there after {limit:.0f} s: {named(going)}",
                "a drained node",
                "check their PodDisruptionBudgets and finalizers, or raise "
                "rollout.drainTimeoutSeconds",
            )
        )


async def drain_or_uncordon(
    client: Client, name: str, limit: float, consent: Collection[str]
) -> None:
    """Drain a node that this program cordoned, and uncordon the node if draining fails.

    Raises:
        ClusterError: Draining failed, as in `drain`.
    """
    try:
        await drain(client, name, limit, consent)
    except ClusterError:
        if (node := await node_of(client, name)) is not None:
            await uncordon(client, node)
        raise


async def _evict(client: Client, pod: Json) -> None:
    """Request the eviction of a pod; a refusal by a PodDisruptionBudget (429) is retried later."""
    meta = pod["metadata"]
    if meta.get("deletionTimestamp"):
        return
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
    }
    url = f"namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    try:
        await client.request("POST", url, body=body)
    except Refused as error:
        if error.code not in (404, 409, 429):
            raise


async def until(step: Callable[[], Awaitable[bool]], limit: float) -> bool:
    """Return whether `step` returned true within `limit` seconds."""
    loop = asyncio.get_running_loop()
    end, pause = loop.time() + limit, min(FIRST, PAUSE)
    while not await step():
        if loop.time() + pause > end:
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE)
    return True


def ready(node: Json) -> bool:
    """Return whether a node has the condition Ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
