"""Read the state of a cluster that `validate_cluster` compares with the declared platform."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.kubernetes.labels import MANAGER
from gpu_cluster.kubernetes.managers import daemon_set
from gpu_cluster.kubernetes.resources import DRIVER_LABEL
from gpu_cluster.nodes.causes.read import Reader
from gpu_cluster.nodes.inspect import simulated
from gpu_cluster.nodes.taints import recorded_taints
from gpu_cluster.platforms.findings import PodAdmission, Surroundings
from gpu_cluster.settings.nodes.taint import STARTUP_TAINT
from gpu_rules.kube.taints import NodeTaint

if TYPE_CHECKING:
    from gpu_cluster.kubernetes.api import Client, Json

# Label of Node Feature Discovery's master, and the option with which its rules may taint nodes
# (node-feature-discovery v0.19.0, cmd/nfd-master; also `enableTaints` in its configuration file).
FEATURES = "app.kubernetes.io/name=node-feature-discovery"
TAINTING = "enable-taints"

NETWORKING = "/apis/networking.k8s.io"
"""API group of ServiceCIDRs and IPAddresses, as the base of a request's path."""

_LEVEL = "pod-security.kubernetes.io/enforce"
"""Label of a namespace with the level of Pod Security (Kubernetes, "Pod Security Admission")."""

_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of the keys of taints that the node controller and cloud providers set and clear."""

# Seconds to wait until an endpoint accepts a connection.
ANSWER = 3.0


def _lasting(node: Json) -> tuple[NodeTaint, ...]:
    """Return the taints of a node that keep pods off, without those that come and go.

    The node controller and cloud providers clear their own, and this program changes its own. If
    the record of the program's own taints is unreadable, all taints count as those of others: the
    inspection goes on, and the run that changes taints reports the record.
    """
    try:
        recorded = {NodeTaint.of(taint) for taint in recorded_taints(node)}
    except IllFormed:
        recorded = set()
    return tuple(
        taint
        for taint in map(NodeTaint.of, (node.get("spec") or {}).get("taints") or ())
        if taint.is_hard
        and taint not in recorded
        and not taint.key.startswith(_PASSING)
        and not taint.is_same(STARTUP_TAINT.node_taint)
    )


def ours(namespaces: Iterable[Json]) -> list[str]:
    """Return the names of the namespaces that this program created."""
    return sorted(
        item["metadata"]["name"]
        for item in namespaces
        if item["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "gpu-cluster"
    )


def manager_of(item: Json | None) -> str:
    """Return the field manager with which a stack made an object; empty if it is not known."""
    metadata = (item or {}).get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(MANAGER) or "")


async def _check_endpoint(address: str) -> str:
    """Return the reason why a connection to `host:port` fails; empty if it succeeds."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(ANSWER):
            _, writer = await asyncio.open_connection(host, int(port))
    except TimeoutError:
        return f"no answer within {ANSWER:g} s"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ""


async def _read_services(client: Client, address: str) -> tuple[tuple[str, ...], str]:
    """Return the address ranges of Services, and the Service that has an address.

    Both are empty if the API server does not serve them, or does not show them to this user.

    Args:
        address: The address. Empty: nothing is read.
    """
    if not address:
        return (), ""
    reader = Reader(client)
    ranges = await reader.listed("servicecidrs", base=NETWORKING)
    selector = f"metadata.name={address}"
    owners = await reader.listed("ipaddresses", base=NETWORKING, fieldSelector=selector)
    references = [owner["spec"]["parentRef"] for owner in owners]
    return (
        tuple(cidr for item in ranges for cidr in item["spec"].get("cidrs") or ()),
        next(
            (f"{reference.get('namespace')}/{reference.get('name')}" for reference in references),
            "",
        ),
    )


async def _read_admission(
    client: Client, spaces: Collection[str], namespaces: Iterable[Json]
) -> PodAdmission:
    """Return the objects that decide whether pods of some namespaces are created.

    Args:
        spaces: Names of the pods' namespaces.
        namespaces: All namespaces of the cluster.
    """
    reader = Reader(client)
    levels = {
        item["metadata"]["name"]: level
        for item in namespaces
        if item["metadata"]["name"] in spaces
        if (level := (item["metadata"].get("labels") or {}).get(_LEVEL))
    }
    priorities = await reader.listed("priorityclasses", base="/apis/scheduling.k8s.io")
    runtimes = await reader.listed("runtimeclasses", base="/apis/node.k8s.io")
    quotas, ranged = {}, set()
    for space in sorted(spaces):
        if found := await reader.listed(f"namespaces/{space}/resourcequotas"):
            quotas[space] = found
            if await reader.listed(f"namespaces/{space}/limitranges"):
                ranged.add(space)

    def names(items: Iterable[Json], resource: str) -> frozenset[str] | None:
        if resource in reader.refused:
            return None
        return frozenset(item["metadata"]["name"] for item in items)

    return PodAdmission(
        # Every API server has some, so an empty list means that the list could not be read.
        priority_classes=names(priorities, "priorityclasses") or None,
        runtime_classes=names(runtimes, "runtimeclasses"),
        levels=levels,
        quotas=quotas,
        ranged=frozenset(ranged if "limitranges" not in reader.refused else quotas),
    )


async def surroundings(
    client: Client,
    nodes: list[Json],
    endpoints: list[str],
    declared: list[str],
    address: str = "",
    manager: str = "",
    pods: Collection[str] = (),
) -> Surroundings:
    """Return the state of the cluster outside this stack.

    Args:
        nodes: Node objects of the cluster.
        endpoints: Endpoints that must be reachable, as `host:port`.
        declared: Namespaces that the stack creates.
        address: Declared IP address of the platform's Service. Empty: it has none.
        manager: Name of the field manager of the stack's objects. Empty: it is not known.
        pods: Namespaces of the platform's pods. Empty: what admits their pods isn't read.
    """
    version, groups, namespaces, sets, masters, answers, services = await asyncio.gather(
        client.server_version(),
        client.request("GET", "", base="/apis", version=""),
        client.list("namespaces"),
        client.list("daemonsets", base="/apis/apps"),
        client.list("deployments", base="/apis/apps", labelSelector=FEATURES),
        asyncio.gather(*map(_check_endpoint, endpoints)),
        _read_services(client, address),
    )
    own_namespaces = ours(namespaces)
    own_declared = set(own_namespaces).intersection(declared)
    existing = {item["metadata"]["name"] for item in namespaces}
    real = {node["metadata"]["name"]: node for node in nodes if not simulated(node)}
    return Surroundings(
        version=version,
        groups={
            group["name"]: [version["version"] for version in group["versions"]]
            for group in groups["groups"]
        },
        namespaces=tuple(own_namespaces),
        taken=tuple(sorted(existing.intersection(declared).difference(own_namespaces))),
        shared={
            item["metadata"]["name"]: other_manager
            for item in namespaces
            if item["metadata"]["name"] in own_declared
            # The run waits until a namespace in deletion is gone (`release.clear.namespace`).
            if not item["metadata"].get("deletionTimestamp")
            if (other_manager := manager_of(item)) and manager and other_manager != manager
        },
        managers=tuple(filter(None, map(daemon_set, sets))),
        tainting=any(TAINTING in str(master["spec"]) for master in masters),
        engines={
            name: node["status"]["nodeInfo"]["containerRuntimeVersion"]
            for name, node in real.items()
        },
        drivers={
            name: version
            for name, node in real.items()
            if (version := (node["metadata"].get("labels") or {}).get(DRIVER_LABEL))
        },
        endpoints=dict(zip(endpoints, answers, strict=True)),
        service_ranges=services[0],
        taints={name: taints for name, node in real.items() if (taints := _lasting(node))},
        address_owner=services[1],
        admission=await _read_admission(client, pods, namespaces) if pods else None,
    )
