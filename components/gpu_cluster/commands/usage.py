"""List which pods hold which GPUs of a cluster, and how many are free: data for `gpu-cluster who`.

Everything that the API server reports is read here and returned as a frozen model; `usage` is pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal, Self

from pydantic import Field

from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.desired.pool import Members
from gpu_cluster.desired.validation import Advertised
from gpu_cluster.kubernetes.api import Client, Json, Refused
from gpu_cluster.kubernetes.hami import shares_of_node, shares_of_pod, with_shares
from gpu_cluster.kubernetes.resources import DRA_DRIVER, counts_gpus
from gpu_cluster.nodes.drain import ready
from gpu_cluster.nodes.gpu_holders import FINISHED, allocated
from gpu_cluster.nodes.inspect import count_devices, gpus, list_nodes
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.printable import printable

VERSION: Final = "v1"
"""Version of the format of the `Usage` document."""
RESOURCES = "/apis/resource.k8s.io"
NAMED = 256
"""Maximum number of characters of a name that is kept; Kubernetes allows 253."""

Amounts = Annotated[dict[str, int], Freeze]
"""Number of devices by resource."""


class Utilization(Model):
    """Utilization of a pod's GPUs, as the DCGM exporter measured it.

    Attributes:
        percent: Utilization in percent. For a pod with several GPUs it is their sum, mean or
            maximum, as the rule of the metrics adapter combines them; 0 if none computes.
        at: Time of the measurement.
        window_seconds: Length of the period that the value covers, if the adapter reports it; the
            adapter's rule can cover a period without reporting it. None: not reported.
    """

    percent: float
    at: datetime
    window_seconds: int | None = None


class Holder(Model):
    """A pod that holds GPUs of a node, or a ResourceClaim that holds them for any number of pods.

    Attributes:
        kind: `ResourceClaim` if a claim holds GPUs for no pod or for several pods, else `Pod`.
        namespace: Namespace of the pod or claim.
        name: Name of the pod or claim.
        state: Phase of the pod, or that it is being deleted; for a claim `allocated`.
        amounts: Number of devices by resource; GPUs of claims by the name of the DRA driver.
        claims: Names of the ResourceClaims that hold GPUs for this pod alone.
        pods: Names of the pods that share the claim.
        created: Time of creation, as the API server writes it.
        utilization: How busy the pod's GPUs are. None: not measured, or a claim.
        idle: Whether the pod's GPUs were measured, and none of them computed.
    """

    kind: Literal["Pod", "ResourceClaim"] = "Pod"
    namespace: str
    name: str
    state: str = ""
    amounts: Amounts = Field(default_factory=FrozenDict)
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    created: str = ""
    utilization: Utilization | None = None
    idle: bool = False


class NodeUsage(Model):
    """Allocatable, free and held GPUs of a node.

    Attributes:
        pool: Pool of the stack that contains the node. Empty: none, or in maintenance.
        closed: Why the node takes no new pods: `cordoned` or `not ready`. Empty: it takes pods.
        gpus: Number of allocatable devices by resource.
        free: Number of allocatable devices that nobody holds, by resource.
        missing: Number of declared devices that the node does not advertise, by resource.
        holders: Pods and claims that hold GPUs, sorted by namespace and name.
    """

    node: str
    pool: str = ""
    closed: Literal["", "cordoned", "not ready"] = ""
    gpus: Amounts = Field(default_factory=FrozenDict)
    free: Amounts = Field(default_factory=FrozenDict)
    missing: Amounts = Field(default_factory=FrozenDict)
    holders: tuple[Holder, ...] = ()


class NamespaceUsage(Model):
    """The GPUs that a namespace holds.

    Attributes:
        namespace: Name of the namespace.
        holders: Number of pods and of shared claims that hold GPUs.
        amounts: Number of devices by resource.
    """

    namespace: str
    holders: int
    amounts: Amounts


class Usage(Model):
    """GPU usage of a cluster: the pods that hold GPUs, by node. The order is deterministic.

    Attributes:
        version: Version of the document's format.
        command: Name of the command, as in the JSON output of all commands.
        nodes: Nodes with GPUs, and nodes whose GPUs a pod or claim holds.
        namespaces: Totals by namespace; the namespace with the most GPUs comes first.
        waiting: Pods that request GPUs and have no node yet.
        uninspected: What could not be read, and why.
        unmeasured: Why pods have no utilization, for the cluster or for a namespace.
    """

    version: Literal["v1"] = VERSION
    command: Literal["who"] = "who"
    stack: str
    nodes: tuple[NodeUsage, ...] = ()
    namespaces: tuple[NamespaceUsage, ...] = ()
    waiting: tuple[Holder, ...] = ()
    uninspected: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PodDevices:
    """The devices that a pod requests. A cluster has up to 150,000 pods, so nothing else is kept.

    Attributes:
        uid: UID of the pod.
        node: Name of its node. Empty: none yet.
        phase: Phase of the pod.
        is_deleted: Whether the pod is being deleted.
        created: Time of creation, as the API server writes it.
        requests: Number of devices by extended resource.
        by_claim: Those extended resources that a ResourceClaim fulfils, which is counted itself.
    """

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    is_deleted: bool
    created: str
    requests: Mapping[str, int]
    by_claim: frozenset[str]

    @classmethod
    def of(cls, pod: Json) -> Self:
        """Return the devices of a pod, as the API server lists it."""
        status = pod.get("status") or {}
        return cls(
            namespace=_metadata_text(pod, "namespace"),
            name=_metadata_text(pod, "name"),
            uid=_metadata_text(pod, "uid"),
            node=str(pod["spec"].get("nodeName") or ""),
            phase=str(status.get("phase") or "Unknown"),
            is_deleted=bool(pod["metadata"].get("deletionTimestamp")),
            created=_metadata_text(pod, "creationTimestamp"),
            requests={**device_requests(pod), **shares_of_pod(pod)},
            by_claim=_by_claim(status),
        )


@dataclass(frozen=True, kw_only=True)
class Listed:
    """Data from the objects that the API server listed.

    Attributes:
        pods: Pods of all namespaces that request extended resources or have ResourceClaims.
        claims: ResourceClaims of all namespaces.
        slices: ResourceSlices.
        uninspected: What could not be listed, and why.
    """

    nodes: tuple[Json, ...] = ()
    pods: tuple[PodDevices, ...] = ()
    claims: tuple[Json, ...] = ()
    slices: tuple[Json, ...] = ()
    uninspected: tuple[str, ...] = ()


async def listed(client: Client) -> Listed:
    """List what `usage` needs, with four kinds of requests that only read.

    Raises:
        ClusterError: Nodes or pods can't be listed.
    """
    nodes = await list_nodes(client)
    pods = [
        devices
        async for page in client.pages("pods")
        for pod in page
        if (devices := PodDevices.of(pod)).requests or pod["spec"].get("resourceClaims")
    ]
    objects: dict[str, list[Json]] = {"resourceclaims": [], "resourceslices": []}
    reasons = []
    for kind in objects:
        try:
            objects[kind] = await client.list(kind, base=RESOURCES)
        except Refused as error:
            # A cluster that does not serve this API has no ResourceClaims.
            if error.code != 404:
                reasons.append(printable(f"{kind}: {error.message}"))
    return Listed(
        nodes=tuple(nodes),
        pods=tuple(pods),
        claims=tuple(objects["resourceclaims"]),
        slices=tuple(objects["resourceslices"]),
        uninspected=tuple(reasons),
    )


def usage(
    stack: str,
    pools: Sequence[Members],
    names: Collection[str],
    cluster_objects: Listed,
    declared: Sequence[Advertised] = (),
) -> Usage:
    """Return who holds which GPUs.

    Args:
        pools: Pools of the stack.
        names: Names of the GPU resources that the stack advertises, including renamed ones.
        cluster_objects: What the API server listed.
        declared: Pools of nodes that should advertise the same devices.
    """
    by_node: dict[str, list[Holder]] = {}
    waiting = []
    resources = frozenset({*names, *_gpu_resources(cluster_objects)} - {DRA_DRIVER})
    held_claims, alone = _split_claims(cluster_objects.claims, cluster_objects.pods)
    for pod in cluster_objects.pods:
        holder = _of_pod(pod, resources, alone)
        if not holder.amounts:
            continue
        if pod.node:
            by_node.setdefault(pod.node, []).append(holder)
        elif holder.state == "Pending":
            waiting.append(holder)
    for node, claim in held_claims:
        by_node.setdefault(node, []).append(claim)
    all_nodes = list(map(with_shares, cluster_objects.nodes))
    counted = count_devices(all_nodes, list(cluster_objects.slices), DRA_DRIVER)
    objects = {str(node["metadata"]["name"]): node for node in counted}
    nodes = [
        _node_usage(objects.get(name, {}), name, pools, resources, by_node.get(name, []), declared)
        for name in sorted({*objects, *by_node}, key=natural_order)
    ]
    used_nodes = tuple(node for node in nodes if node.gpus or node.holders or node.missing)
    return Usage(
        stack=stack,
        nodes=used_nodes,
        namespaces=tuple(_namespace_usage(used_nodes)),
        waiting=tuple(sorted(waiting, key=_holder_order)),
        uninspected=cluster_objects.uninspected,
    )


def total(amounts: Iterable[Mapping[str, int]]) -> FrozenDict[str, int]:
    """Return the sum of amounts by resource, sorted by resource, without zeros."""
    added: Counter[str] = Counter()
    for amount in amounts:
        added.update(amount)
    return FrozenDict({name: number for name, number in sorted(added.items()) if number})


def _gpu_resources(objects: Listed) -> Iterator[str]:
    """Yield those of a node's or pod's resource names that are GPU resources."""
    for node in objects.nodes:
        yield from filter(counts_gpus, (node.get("status") or {}).get("allocatable") or {})
        yield from shares_of_node(node)
    for pod in objects.pods:
        yield from filter(counts_gpus, pod.requests)


_Claims = Mapping[tuple[str, str], Sequence[tuple[str, str, int]]]
"""By namespace and UID of a pod, its unshared claims: name, node and number of GPUs of each."""


def _split_claims(
    claims: Iterable[Json], pods: Iterable[PodDevices]
) -> tuple[list[tuple[str, Holder]], _Claims]:
    """Return ResourceClaims used by no or several pods, by node, and those used by one pod."""
    known_pods = {(pod.namespace, pod.uid) for pod in pods}
    held_claims: list[tuple[str, Holder]] = []
    alone: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
    for claim in claims:
        status, space = claim.get("status") or {}, _metadata_text(claim, "namespace")
        users = [u for u in status.get("reservedFor") or [] if u.get("resource") == "pods"]
        owner = (space, str(users[0].get("uid", ""))) if len(users) == 1 else None
        for node, number in Counter(node for node, _ in allocated(claim)).items():
            if owner in known_pods and owner is not None:
                alone.setdefault(owner, []).append((_metadata_text(claim, "name"), node, number))
                continue
            holder = Holder(
                kind="ResourceClaim",
                namespace=space,
                name=_metadata_text(claim, "name"),
                state="allocated",
                amounts=FrozenDict({DRA_DRIVER: number}),
                pods=tuple(sorted(str(user.get("name", ""))[:NAMED] for user in users)),
                created=_metadata_text(claim, "creationTimestamp"),
            )
            held_claims.append((node, holder))
    return held_claims, alone


def _of_pod(pod: PodDevices, resources: frozenset[str], claims: _Claims) -> Holder:
    """Return a pod as a holder of GPUs; a finished pod holds none."""
    finished = pod.phase in FINISHED
    pod_claims = () if finished else claims.get((pod.namespace, pod.uid), ())
    requests = {
        name: count
        for name, count in pod.requests.items()
        if name in resources and name not in pod.by_claim
    }
    counted = [requests, *({DRA_DRIVER: number} for _, _, number in pod_claims)]
    return Holder(
        namespace=pod.namespace,
        name=pod.name,
        state="being deleted" if pod.is_deleted and not finished else pod.phase,
        amounts=FrozenDict() if finished else total(counted),
        claims=tuple(sorted(name for name, _, _ in pod_claims)),
        created=pod.created,
    )


def _by_claim(status: Json) -> frozenset[str]:
    """Return the extended resources of a pod that a ResourceClaim fulfils.

    Source: Kubernetes API reference, PodStatus, `extendedResourceClaimStatus`. Such a claim is
    counted itself.
    """
    claim_status = status.get("extendedResourceClaimStatus") or {}
    return frozenset(
        str(mapping.get("resourceName", ""))
        for mapping in claim_status.get("requestMappings") or []
    )


def _node_usage(
    node: Json,
    name: str,
    pools: Sequence[Members],
    resources: frozenset[str],
    node_holders: list[Holder],
    declared: Sequence[Advertised],
) -> NodeUsage:
    """Return the GPU usage of one node; `node` is empty if the cluster no longer has it."""
    # A node advertises few of the cluster's resources.
    advertised = (node.get("status") or {}).get("allocatable") or {}
    kinds = (*(kind for kind in advertised if kind in resources), DRA_DRIVER)
    allocatable = total([{kind: gpus(node, resource=kind) for kind in kinds}])
    used = total(holder.amounts for holder in node_holders)
    closed: Literal["", "cordoned", "not ready"] = "" if node and ready(node) else "not ready"
    if node and (node.get("spec") or {}).get("unschedulable"):
        closed = "cordoned"
    node_pool = next((pool for pool in declared if _is_member(node, name, pool)), None)
    desired = node_pool.resources if node_pool else {}
    return NodeUsage(
        node=name[:NAMED],
        pool=_pool_name(node, name, pools),
        closed=closed,
        gpus=allocatable,
        free=FrozenDict(
            {kind: max(0, number - used.get(kind, 0)) for kind, number in allocatable.items()}
        ),
        missing=total(
            [{kind: max(0, count - gpus(node, resource=kind)) for kind, count in desired.items()}]
        ),
        holders=tuple(sorted(node_holders, key=_holder_order)),
    )


def _pool_name(node: Json, name: str, pools: Iterable[Members]) -> str:
    return next((pool.pool for pool in pools if _is_member(node, name, pool)), "")


def _is_member(node: Json, name: str, pool: Members) -> bool:
    """Return whether a node is in a pool and not in maintenance."""
    if name in pool.maintenance:
        return False
    if pool.nodes is not None:
        return name in pool.nodes
    labels = (node.get("metadata") or {}).get("labels") or {}
    return bool(pool.selector) and pool.selector.items() <= labels.items()


def _namespace_usage(nodes: Iterable[NodeUsage]) -> Iterator[NamespaceUsage]:
    holders_by_namespace: dict[str, list[Holder]] = {}
    for node in nodes:
        for holder in node.holders:
            holders_by_namespace.setdefault(holder.namespace, []).append(holder)
    totals = [
        NamespaceUsage(
            namespace=namespace,
            holders=len(holders),
            amounts=total(holder.amounts for holder in holders),
        )
        for namespace, holders in holders_by_namespace.items()
    ]
    yield from sorted(
        totals,
        key=lambda namespace_total: (
            -sum(namespace_total.amounts.values()),
            namespace_total.namespace,
        ),
    )


def _metadata_text(thing: Json, key: str) -> str:
    return str(thing["metadata"].get(key) or "")[:NAMED]


def _holder_order(holder: Holder) -> tuple[str, str, str]:
    return holder.namespace, holder.name, holder.kind
