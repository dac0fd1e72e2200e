"""Takes the work off one node before its host goes down, and gives it back after.

A node that somebody else cordoned stays cordoned: ours carries the annotation `CORDONED`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from components.api import Client, ClusterError, Json, Refused
from components.nodes.inspect import CORDONED
from config.problem import Fault

MERGE = "application/merge-patch+json"
PAUSE = 2.0
"""Seconds between two looks at what is awaited."""


async def node_of(client: Client, name: str) -> Json | None:
    """The Node object, or None where the host isn't a node (yet)."""
    return await client.find(f"nodes/{name}")


def cordoned_by_us(node: Json) -> bool:
    """Whether this program cordoned the node, also in a run that was killed."""
    return CORDONED in node["metadata"].get("annotations", {})


async def cordon(client: Client, node: Json, mark: str) -> None:
    """No new pods; a node that is already cordoned by somebody else is left as it is."""
    if node["spec"].get("unschedulable"):
        return
    body = {"metadata": {"annotations": {CORDONED: mark}}, "spec": {"unschedulable": True}}
    await _patch(client, node, body)


async def uncordon(client: Client, node: Json) -> None:
    """Uncordons a node that we cordoned, and only that."""
    if cordoned_by_us(node):
        body = {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}}
        await _patch(client, node, body)


async def _patch(client: Client, node: Json, body: Json) -> None:
    name = node["metadata"]["name"]
    await client.request("PATCH", f"nodes/{name}", body=body, content_type=MERGE)


def to_evict(pods: list[Json]) -> tuple[list[Json], list[str]]:
    """Which pods of a node must go, and which would be lost, as `kubectl drain` tells them apart.

    A DaemonSet's pods and mirror pods stay, finished ones don't count, and a pod that no
    controller makes again is lost (kubectl 1.34, pkg/drain/filters.go).
    """
    going, lost = [], []
    for pod in pods:
        meta = pod["metadata"]
        owners = [owner for owner in meta.get("ownerReferences", []) if owner.get("controller")]
        if (
            pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            or "kubernetes.io/config.mirror" in meta.get("annotations", {})
            or any(owner["kind"] == "DaemonSet" for owner in owners)
        ):
            continue
        if not owners:
            lost.append(f"{meta['namespace']}/{meta['name']}")
        going.append(pod)
    return going, lost


async def drain(client: Client, name: str, limit: float) -> None:
    """Evicts a node's pods and waits until they are gone.

    Raises:
        ClusterError: a pod that no controller makes again, or pods that are still there after
            ``limit`` seconds (a PodDisruptionBudget, a finalizer); they are named.
    """

    async def remaining() -> tuple[list[Json], list[str]]:
        return to_evict(await client.list("pods", fieldSelector=f"spec.nodeName={name}"))

    going, lost = await remaining()
    if lost:
        raise ClusterError(
            Fault(
                f"node {name}",
                f"pods that no controller makes again: {', '.join(sorted(lost))}",
                "none before a reboot",
                "delete them, or reboot the host by hand",
            )
        )

    async def step() -> bool:
        nonlocal going
        await asyncio.gather(*(_evict(client, pod) for pod in going))
        going, _ = await remaining()
        return not going

    if not await until(step, limit):
        names = sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in going)
        raise ClusterError(
            Fault(
                f"node {name}",
                f"{len(names)} pods still there after {limit:.0f} s: {', '.join(names[:5])}",
                "a drained node",
                "look at their PodDisruptionBudgets and finalizers, or raise "
                "reboot.drainTimeoutSeconds",
            )
        )


async def _evict(client: Client, pod: Json) -> None:
    """One eviction; refused by a budget (429) it is tried again at the next look."""
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
    """Whether ``step`` became true within ``limit`` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    while not await step():
        if loop.time() + PAUSE > end:
            return False
        await asyncio.sleep(PAUSE)
    return True


def ready(node: Json) -> bool:
    """Whether the node's kubelet says that it is ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
