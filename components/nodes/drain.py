"""Takes the work off one node before its host goes down, and gives it back after.

A node that somebody else cordoned stays cordoned: ours carries the annotation `CORDONED`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from components.kubernetes.api import Client, ClusterError, Json, Refused
from components.nodes.inspect import CORDONED
from policies.faults import Fault
from policies.printable import printable, shortened

MERGE = "application/merge-patch+json"
NAMED = 5
"""Pods that a message names; the others are counted."""
FIRST, PAUSE = 0.25, 2.0
"""Seconds between two looks at what is awaited: at first, and at most as it lasts longer."""


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


def to_evict(pods: list[Json]) -> list[Json]:
    """Which pods of a node must go before it goes down, as `kubectl drain` tells them apart.

    A DaemonSet's pods and mirror pods stay, and finished ones don't count (kubectl 1.34,
    pkg/drain/filters.go).
    """
    return [
        pod
        for pod in pods
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        and "kubernetes.io/config.mirror" not in pod["metadata"].get("annotations", {})
        and (owner_of(pod) or {}).get("kind") != "DaemonSet"
    ]


def owner_of(pod: Json) -> Json | None:
    """What makes a pod again when it is gone; None where nothing does."""
    owners: list[Json] = pod["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), None)


def losses(pods: list[Json], consent: Collection[str]) -> str:
    """Pods that would lose something to which nobody has consented; empty where none would.

    Args:
        pods: that must go.
        consent: what `rollout.evict` declares.
    """
    unmanaged = [pod for pod in pods if owner_of(pod) is None]
    local = [pod for pod in pods if any("emptyDir" in v for v in pod["spec"].get("volumes") or [])]
    told = (
        ("unmanaged", "pods that no controller makes again", unmanaged),
        ("empty-dir", "pods that lose their emptyDir volumes", local),
    )
    return "; ".join(
        f"{what}: {named(found)}" for kind, what, found in told if found and kind not in consent
    )


def named(pods: list[Json]) -> str:
    """The first of some pods by name; the others are counted."""
    names = sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods)
    return printable(shortened(names, NAMED))


async def drain(client: Client, name: str, limit: float, consent: Collection[str]) -> None:
    """Evicts a node's pods and waits until they are gone.

    Raises:
        ClusterError: pods that would lose something without ``consent``, or that are still there
            after ``limit`` seconds (a PodDisruptionBudget, a finalizer); they are named.
    """

    async def remaining() -> list[Json]:
        return to_evict(await client.list("pods", fieldSelector=f"spec.nodeName={name}"))

    going = await remaining()
    if lost := losses(going, consent):
        raise ClusterError(
            Fault(
                f"node {name}",
                lost,
                "none, or your consent",
                "delete them, or declare rollout.evict: [unmanaged, empty-dir]",
            )
        )

    async def step() -> bool:
        nonlocal going
        # One that came since may lose something, too; it is not evicted, and named at the end.
        await asyncio.gather(*(_evict(client, p) for p in going if not losses([p], consent)))
        going = await remaining()
        return not going

    if not await until(step, limit):
        raise ClusterError(
            Fault(
                f"node {name}",
                f"{len(going)} pods still there after {limit:.0f} s: {named(going)}",
                "a drained node",
                "look at their PodDisruptionBudgets and finalizers, or raise "
                "rollout.drainTimeoutSeconds",
            )
        )


async def drain_or_uncordon(
    client: Client, name: str, limit: float, consent: Collection[str]
) -> None:
    """Drains a node that we cordoned; one that can't be drained is given back.

    Raises:
        ClusterError: as `drain`.
    """
    try:
        await drain(client, name, limit, consent)
    except ClusterError:
        if (node := await node_of(client, name)) is not None:
            await uncordon(client, node)
        raise


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
    end, pause = loop.time() + limit, min(FIRST, PAUSE)
    while not await step():
        if loop.time() + pause > end:
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE)
    return True


def ready(node: Json) -> bool:
    """Whether the node's kubelet says that it is ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
