"""Remove objects that would make the creation or update of a Pulumi resource fail.

Such objects are leftovers of an interrupted run, a RuntimeClass that another platform's release
leaves for a short time, and DaemonSets of device plugins that are no longer declared. The functions
also reject a namespace that this program did not create. The hooks of
`gpu_cluster.release.clearing` call them.

Each function gets the inputs of the resource that is about to be created or updated, and returns
descriptions of the removed objects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.desired.pool import Members
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused, connect
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.kubernetes.managers import OWNER
from gpu_cluster.nodes.drain import owner_of
from gpu_cluster.nodes.inspect import list_nodes
from gpu_cluster.platforms.requests import HelmRelease
from gpu_cluster.platforms.validate_cluster import shared_namespace, taken_namespace
from gpu_cluster.release import runtime_class
from gpu_cluster.release.helm_record import decode_release, same_values, secrets_of, settle
from gpu_cluster.release.inspect import manager_of, ours
from gpu_rules.faults import Fault
from gpu_rules.printable import counted

# Seconds to wait until another platform's pods have ended; their grace period is 30 seconds.
OTHERS_GONE = 90
# Seconds to wait until a deleted object no longer exists.
GONE = 60


@dataclass(frozen=True, kw_only=True)
class OwnServers:
    """DaemonSets of the device plugin that this program creates in addition to the release's.

    Attributes:
        namespace: Namespace of the DaemonSets.
        selector: Label selector of the device plugin's pods, including the release's.
        declared: Names of the DaemonSets that are still declared.
        release: Name of the release's DaemonSet.
    """

    context: str
    namespace: str
    selector: str
    declared: Collection[str]
    release: str


@dataclass(frozen=True, kw_only=True)
class Others:
    """Other platforms, whose pods must have left the stack's nodes before a release is installed.

    Attributes:
        selectors: Label selectors of the other platforms' pods.
        pools: Pools of the stack. On other nodes, another stack's platform may run.
    """

    context: str
    selectors: Collection[str]
    pools: Sequence[Members] = ()


async def release(other_platforms: Others, inputs: Json) -> list[str]:
    """Wait until no other platform runs on the stack's nodes, and delete an unfinished record.

    An interrupted run, or a run that this stack does not know, may have written Helm's record of
    the release, but its values must equal this stack's. The objects of the release stay: they have
    Helm's ownership labels of the same release, so the following installation adopts them. If the
    release's pods use a RuntimeClass that the GPU Operator left, this program adopts the
    RuntimeClass.

    Args:
        other_platforms: The other platforms.
        inputs: Inputs of the release's Pulumi resource.

    Returns:
        Descriptions of the deleted records.

    Raises:
        ClusterError: A release of this name has other values, or pods of another platform don't
            end.
    """
    name, namespace = inputs["name"], inputs["namespace"]
    async with connect(other_platforms.context) as client:
        await _others_gone(client, name, other_platforms)
        if runtime_class_name := (inputs.get("values") or {}).get("runtimeClassName"):
            await runtime_class.settle(client, runtime_class_name)
        records = await secrets_of(client, name, namespace)
        if not records:
            return []
        latest = decode_release(records[-1])
        if not same_values(latest.get("config"), inputs.get("values")):
            raise ClusterError(foreign_release(HelmRelease(name=name, namespace=namespace)))
        urls = [f"namespaces/{namespace}/secrets/{r['metadata']['name']}" for r in records]
        for url in urls:
            await _delete(client, url, propagation="Background")
        for url in urls:
            await _wait_until_gone(client, url)
    return [f"record of release {namespace}/{name}"]


def foreign_release(release: HelmRelease) -> Fault:
    """Return the fault about an installed release of this name that the state does not have."""
    return Fault(
        f"release {release.namespace}/{release.name}",
        "a release with other values, which this stack did not create",
        "a release name that is not in use",
        f"run `helm uninstall -n {release.namespace} {release.name}`, or declare another namespace",
    )


async def upgrade(context: str, inputs: Json) -> list[str]:
    """Mark Helm's record of an interrupted upgrade as failed; Helm rejects pending releases."""
    name, namespace = inputs["name"], inputs["namespace"]
    async with connect(context) as client:
        status = await settle(client, name, namespace)
    return [f"{status} of release {namespace}/{name}"] if status else []


async def _wait_until_gone(client: Client, url: str) -> None:
    """Wait until a deleted object no longer exists; a finalizer can delay its deletion.

    Raises:
        ClusterError: The object still exists after `GONE` seconds.
    """
    deadline = time.monotonic() + GONE
    while present := await client.find(url):
        if time.monotonic() > deadline:
            finalizers = ", ".join(present["metadata"].get("finalizers", [])) or "none"
            raise ClusterError(
                Fault(
                    url,
                    f"still there {GONE} s after it was deleted; finalizers: {finalizers}",
                    "its name free",
                    "check which finalizer keeps it, then run again",
                )
            )
        await asyncio.sleep(0.2)


def _pool_node_names(nodes: Sequence[Json], pools: Sequence[Members]) -> set[str]:
    """Return the names of the nodes that belong to pools, also of those in maintenance."""
    names = {name for pool in pools for name in (*(pool.nodes or ()), *pool.maintenance)}
    selectors = [pool.selector.items() for pool in pools if pool.nodes is None]
    return names | {
        node["metadata"]["name"]
        for node in nodes
        if any(selector <= (node["metadata"].get("labels") or {}).items() for selector in selectors)
    }


async def _others_gone(client: Client, name: str, other_platforms: Others) -> None:
    """Wait until other platforms' pods are gone; two platforms would allocate a GPU twice."""
    nodes = _pool_node_names(await list_nodes(client), other_platforms.pools)
    await _own_servers_gone(client, other_platforms.selectors, nodes)

    async def left() -> list[str]:
        # Ignore pods of DaemonSets that this program did not create; the inspection reported them.
        # A pod that no DaemonSet created is no platform's, whatever its labels.
        sets = await client.list("daemonsets", base="/apis/apps")
        spaces = ours(await client.list("namespaces"))
        living = {
            daemon_set["metadata"]["uid"]
            for daemon_set in sets
            if daemon_set["metadata"]["namespace"] not in spaces
            and OWNER not in (daemon_set["metadata"].get("annotations") or {})
        }
        return [
            _namespaced_name(pod)
            for selector in other_platforms.selectors
            for pod in await client.list("pods", labelSelector=selector)
            if pod["spec"].get("nodeName") in nodes
            and (owner_of(pod) or {}).get("kind") == "DaemonSet"
            and not living & _owner_uids(pod)
        ]

    await _pods_gone(left, f"release {name}", "of another platform")


async def _pods_gone(
    list_pods: Callable[[], Awaitable[list[str]]], subject: str, whose: str
) -> None:
    """Wait until the function `list_pods` returns no pods.

    Raises:
        ClusterError: Pods remain after `OTHERS_GONE` seconds.
    """
    deadline = time.monotonic() + OTHERS_GONE
    while pods := await list_pods():
        if time.monotonic() > deadline:
            raise ClusterError(
                Fault(
                    subject,
                    f"{counted(len(pods), 'pod')} {whose}, first {pods[0]}",
                    f"none after {OTHERS_GONE} s",
                    "check what keeps them (`kubectl get pod -o yaml`), then run again",
                )
            )
        await asyncio.sleep(0.5)


def _namespaced_name(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _owner_uids(pod: Json) -> set[str]:
    return {owner["uid"] for owner in pod["metadata"].get("ownerReferences", [])}


def _owner_names(pod: Json) -> set[str]:
    return {owner["name"] for owner in pod["metadata"].get("ownerReferences", [])}


def _served_nodes(inputs: Json) -> set[str]:
    """Return the nodes that a DaemonSet of this program names in its node affinity."""
    return named_nodes(inputs) if inputs.get("kind") == "DaemonSet" else set()


def named_nodes(daemon_set: Mapping[str, Any]) -> set[str]:
    """Return the nodes that the node affinity of a DaemonSet of this program names.

    A DaemonSet with this program's labels may be somebody else's, and name none.
    """
    affinity = daemon_set["spec"]["template"]["spec"].get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    return {
        name
        for term in required.get("nodeSelectorTerms") or ()
        for field in term.get("matchFields") or ()
        for name in field.get("values") or ()
    }


async def _own_servers_gone(
    client: Client, selectors: Collection[str], nodes: Collection[str]
) -> None:
    """Delete this program's DaemonSets of another platform, which exist in addition to its release.

    These DaemonSets are for nodes with excluded GPUs. Pulumi would delete them only after it has
    created all new resources, which is too late. DaemonSets for other nodes than those of the stack
    belong to another stack.
    """
    pairs = [selector.split("=") for selector in selectors]
    for item in await client.list("daemonsets", base="/apis/apps"):
        metadata, labels = item["metadata"], item["spec"]["template"]["metadata"].get("labels", {})
        if (
            LABELS.items() <= (metadata.get("labels") or {}).items()
            and any(labels.get(key) == value for key, value in pairs)
            and not named_nodes(item).isdisjoint(nodes)
        ):
            url = f"namespaces/{metadata['namespace']}/daemonsets/{metadata['name']}"
            await _delete(client, url, base="/apis/apps")


async def servers(own_servers: OwnServers, inputs: Json) -> list[str]:
    """Delete device plugin DaemonSets that are no longer declared, and wait for the release's pods.

    Two device plugins on a node would allocate the same GPU twice. Pulumi would delete the old
    DaemonSets only after it has created all new resources. The release's pods leave the nodes for
    which a separate DaemonSet is declared. If such a pod ended after the new plugin has registered,
    kubelet would disconnect the new plugin, and the node would advertise no GPUs until the plugin's
    restart (kubernetes v1.34.4, pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go, runClient).

    Args:
        own_servers: The DaemonSets of this program.
        inputs: Inputs of the resource that is about to be created or updated.

    Returns:
        Descriptions of the deleted DaemonSets.

    Raises:
        ClusterError: Pods don't end in time.
    """
    path, selector = f"namespaces/{own_servers.namespace}", own_servers.selector
    async with connect(own_servers.context) as client:
        daemon_sets = await client.list(
            f"{path}/daemonsets",
            base="/apis/apps",
            labelSelector=f"app.kubernetes.io/managed-by=gpu-cluster,{selector}",
        )
        ended = [
            daemon_set["metadata"]
            for daemon_set in daemon_sets
            if daemon_set["metadata"]["name"] not in own_servers.declared
        ]
        for daemon_set in ended:
            await _delete(client, f"{path}/daemonsets/{daemon_set['name']}", base="/apis/apps")
        owners = {daemon_set["uid"] for daemon_set in ended}

        async def left() -> list[str]:
            pods = await client.list(f"{path}/pods", labelSelector=selector)
            return [_namespaced_name(pod) for pod in pods if owners & _owner_uids(pod)]

        if owners:
            await _pods_gone(left, "device plugin", "that are no longer declared")
        if nodes := _served_nodes(inputs):

            async def leaving() -> list[str]:
                pods = await client.list(f"{path}/pods", labelSelector=selector)
                return [
                    _namespaced_name(pod)
                    for pod in pods
                    if pod["spec"].get("nodeName") in nodes
                    and own_servers.release in _owner_names(pod)
                ]

            await _pods_gone(leaving, "device plugin", "of the release, on nodes that it leaves")
    return [f"DaemonSet {own_servers.namespace}/{daemon_set['name']}" for daemon_set in ended]


async def await_deletions(context: str) -> None:
    """Wait until no namespace of this program is in deletion.

    An interrupted run leaves such a namespace. Pulumi would find it and create objects in it, which
    the API server rejects.

    Raises:
        ClusterError: A namespace still exists after `GONE` seconds.
    """
    async with connect(context) as client:
        for space in await client.list("namespaces"):
            if ours([space]) and space["metadata"].get("deletionTimestamp"):
                await _wait_until_gone(client, f"namespaces/{space['metadata']['name']}")


async def _delete(
    client: Client, url: str, base: str = "", propagation: str = "Foreground"
) -> None:
    try:
        await client.request("DELETE", url, base=base, body={"propagationPolicy": propagation})
    except Refused as error:
        if error.code != 404:
            raise


async def namespace(context: str, inputs: Json) -> list[str]:
    """Reject a namespace of somebody else or of another stack; wait until a deleted one is gone.

    Returns:
        An empty list, because nothing is removed.

    Raises:
        ClusterError: The namespace exists without this program's label, or with the field manager
            of another stack.
    """
    name = inputs["metadata"]["name"]
    async with connect(context) as client:
        url = f"namespaces/{name}"
        present = await client.find(url)
        if present and ours([present]) and present["metadata"].get("deletionTimestamp"):
            await _wait_until_gone(client, url)
            present = None
    if present is not None and not ours([present]):
        raise ClusterError(taken_namespace(name))
    manager, own_manager = manager_of(present), manager_of(inputs)
    if manager and own_manager and manager != own_manager:
        raise ClusterError(shared_namespace(name, manager))
    return []
