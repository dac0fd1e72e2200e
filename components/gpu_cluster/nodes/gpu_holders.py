"""Pods and ResourceClaims that hold a node's GPUs, and the number of free GPUs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from gpu_cluster.desired.validation import POOL
from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.nodes.inspect import gpus
from gpu_cluster.platforms.base import Offer
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.printable import printable, shortened

T = TypeVar("T")

FINISHED = ("Succeeded", "Failed")
"""Phases of a pod whose containers have all ended (Kubernetes API, PodStatus, `phase`)."""
SINGLE = 20
"""Maximum number of nodes whose pods are listed by one request per node.

For more nodes, one request lists all pods of the cluster."""
UNREAD = ("args", "command", "env", "envFrom", "managedFields", "volumeMounts")
"""Parts of pods and of containers that say nothing about GPUs of a node or about scheduling."""
LONGEST_ANNOTATION = 4096
"""Number of characters of an annotation that is still read, as it may name a pod's GPUs."""
NAMED = 5
"""Maximum number of holders that one message names; other holders are only counted."""


@dataclass(frozen=True)
class GpuHolder:
    """A pod that requests GPUs of a node, or (with DRA) a ResourceClaim that has allocated them.

    Attributes:
        name: Namespace and name, separated by a slash.
        uid: UID of the object.
        state: Phase of the pod, or that it is being deleted.
        amounts: Amount of each resource that it holds. Empty once the pod has finished.
    """

    name: str
    uid: str
    state: str
    amounts: dict[str, int]

    def __str__(self) -> str:
        """Return the holder's name, its state and the number of devices that it holds."""
        devices = sum(self.amounts.values())
        amount = f"holds {devices}" if devices else "holds none any more"
        return f"{printable(self.name, 120)} ({self.state}, {amount})"


def allocated(claim: Json) -> list[tuple[str, str]]:
    """Return the node and the name of each GPU that a ResourceClaim holds, sorted.

    Only GPUs of NVIDIA's DRA driver count; the driver names a pool after its node. GPUs that were
    allocated with `adminAccess`, for monitoring, stay free for others (Kubernetes API reference,
    resource.k8s.io/v1, DeviceRequestAllocationResult).
    """
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return sorted(
        {
            (str(device["pool"]), str(device["device"]))
            for device in results
            if device["driver"] == DRA_DRIVER and not device.get("adminAccess")
        }
    )


def holders_of(pods: list[Json], resources: list[str]) -> list[GpuHolder]:
    """Return the pods of one node that request GPUs, sorted by name.

    Pods that this program created are left out.
    """
    holders = []
    for pod in pods:
        meta = pod["metadata"]
        requests = device_requests(pod)
        amounts = {name: requests[name] for name in resources if name in requests}
        if not amounts or POOL in (meta.get("labels") or {}):
            continue
        phase = str(pod.get("status", {}).get("phase") or "Unknown")
        finished = phase in FINISHED
        state = "being deleted" if meta.get("deletionTimestamp") and not finished else phase
        name = f"{meta['namespace']}/{meta['name']}"
        holders.append(GpuHolder(name, meta["uid"], state, {} if finished else amounts))
    return sorted(holders, key=lambda holder: holder.name)


def holders_of_claims(claims: list[Json], namespace: str) -> dict[str, list[GpuHolder]]:
    """Return the ResourceClaims that have GPUs, by node and sorted by name.

    Claims in the namespace of the validation are left out.
    """
    by_node: dict[str, list[GpuHolder]] = {}
    for claim in claims:
        meta = claim["metadata"]
        if meta["namespace"] == namespace:
            continue
        name = f"{meta['namespace']}/{meta['name']}"
        for node, number in Counter(node for node, _ in allocated(claim)).items():
            holder = GpuHolder(name, meta["uid"], "allocated", {DRA_DRIVER: number})
            by_node.setdefault(node, []).append(holder)
    return {node: sorted(held, key=lambda holder: holder.name) for node, held in by_node.items()}


async def holders(
    client: Client, node: str, resources: Collection[str], namespace: str
) -> list[GpuHolder]:
    """Return the pods or claims that hold GPUs of a node now.

    Args:
        resources: Names of the extended resources or DRA drivers of the node's GPUs.
        namespace: Namespace of the validation, whose claims are ignored.
    """
    return (await holders_by_node(client, [node], resources, namespace))[node]


async def holders_by_node(
    client: Client, nodes: Collection[str], resources: Collection[str], namespace: str
) -> dict[str, list[GpuHolder]]:
    """Return the pods or claims that hold GPUs now, for each of some nodes.

    The arguments are those of `holders`. The number of requests does not grow with the cluster.
    """
    if not nodes:
        return {}
    if DRA_DRIVER in resources:
        claims = await client.list("resourceclaims", base="/apis/resource.k8s.io")
        by_claim = holders_of_claims(claims, namespace)
        return {node: by_claim.get(node, []) for node in nodes}
    names = list(resources)
    by_node = await pods_by_node(client, nodes, lambda _, pod: holders_of([pod], names))
    return {
        node: sorted(chain.from_iterable(held), key=lambda holder: holder.name)
        for node, held in by_node.items()
    }


async def list_pods(client: Client) -> list[Json]:
    """Return all pods of the cluster, without the parts of `UNREAD` and long annotations.

    A tenant can make pods of more than a mebibyte; most of it is in these parts.
    """
    pods = []
    async for page in client.pages("pods"):
        for pod in page:
            _remove_unread(pod)
        pods += page
    return pods


def _remove_unread(pod: Json) -> None:
    metadata = pod["metadata"]
    for name, text in list((metadata.get("annotations") or {}).items()):
        if len(text) > LONGEST_ANNOTATION:
            del metadata["annotations"][name]
    sections: list[Json] = [metadata]
    for key in ("containers", "initContainers", "ephemeralContainers"):
        sections += pod["spec"].get(key) or []
    for section in sections:
        for key in UNREAD:
            section.pop(key, None)


async def pods_by_node(
    client: Client, nodes: Collection[str], read: Callable[[str, Json], T | None]
) -> dict[str, list[T]]:
    """Return data from the pods of each of some nodes; the pods themselves are not kept.

    Args:
        read: Returns what is read of a pod; gets the name of its node and the pod. An empty value
            is left out.
    """
    by_node: dict[str, list[T]] = {name: [] for name in nodes}

    async def read_pages(selector: Mapping[str, str]) -> None:
        async for page in client.pages("pods", **selector):
            for pod in page:
                name = str(pod["spec"].get("nodeName", ""))
                if name in by_node and (value := read(name, pod)):
                    by_node[name].append(value)

    if len(by_node) > SINGLE:
        await read_pages({})
    else:
        await gather(lambda name: read_pages({"fieldSelector": f"spec.nodeName={name}"}), by_node)
    return by_node


def free(node: Json, offers: Iterable[Offer], holders: list[GpuHolder]) -> dict[str, int]:
    """Return the free devices of a node by resource; each replica of a shared device counts."""
    return {
        offer.resource: max(
            0,
            gpus(node, resource=offer.resource)
            - sum(holder.amounts.get(offer.resource, 0) for holder in holders),
        )
        // offer.unit
        for offer in offers
    }


def digest(holders: list[GpuHolder]) -> str:
    """Return a short digest that identifies a set of holders; empty if there are none."""
    uids = sorted(holder.uid for holder in holders if holder.amounts)
    return hashlib.sha256(" ".join(uids).encode()).hexdigest()[:12] if uids else ""


def named(holders: list[GpuHolder]) -> str:
    """Return text that names the first holders and counts the rest."""
    return shortened([str(holder) for holder in holders], NAMED)
