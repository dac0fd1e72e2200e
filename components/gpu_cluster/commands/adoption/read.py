"""Read a running cluster through the Kubernetes API, without any write.

The only Secrets that are read are those in which Helm records releases of GPU software.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_cluster.commands.adoption import parse
from gpu_cluster.commands.adoption.observed import (
    Edit,
    ManagedBy,
    ManagerKind,
    ObservedCluster,
    ObservedRelease,
    ObservedWorkload,
)
from gpu_cluster.commands.adoption.owners import Deliverers, owner_of
from gpu_cluster.kubernetes import grammar
from gpu_cluster.kubernetes.api import Client, Json, Refused
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.grammar import IllFormed
from gpu_cluster.kubernetes.managers import HAMI, daemon_set, helm_release
from gpu_cluster.nodes.inspect import list_nodes
from gpu_cluster.release.helm_record import (
    NOTED,
    decode_release,
    expected,
    secrets_of,
    status_of,
)
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_rules.faults import Fault

DEPTH = 50
"""Maximum number of levels of a release's values."""
GPU_OPERATOR = "NVIDIA's GPU Operator"
_OPERATOR_IMAGE = "gpu-operator"
APPS = "/apis/apps"
_NOT_SERVED = 404


async def read_cluster(client: Client) -> ObservedCluster:
    """Return the model of the cluster that a client is connected to.

    Raises:
        ClusterError: The API server rejected a request, or an object has an invalid name.
    """
    nodes = sorted(
        map(parse.node, await list_nodes(client)), key=lambda node: natural_order(node.name)
    )
    version, sets, deployments, classes, policies, deliverers = await asyncio.gather(
        client.server_version(),
        client.list("daemonsets", base=APPS),
        client.list("deployments", base=APPS),
        client.list("runtimeclasses", base="/apis/node.k8s.io"),
        _list_served(client, "clusterpolicies", "/apis/nvidia.com", "v1"),
        _read_deliverers(client, any(node.provider == "gce" for node in nodes)),
    )
    pairs = [*_gpu_daemon_sets(sets), *_operator_deployments(deployments, sets, policies or ())]
    workloads = [
        parse.workload(item, kind, software, owner_of(item, kind, deliverers))
        for item, kind, software in pairs
    ]
    rendered = [*pairs, *((item, "ClusterPolicy", "") for item in policies or ())]
    rendered += _hami_deployments(deployments, pairs)
    parts = _by_release(workloads, rendered)
    releases = await gather(
        lambda key: _release(client, key, parts[key]),
        sorted({key for item, _, _ in pairs if (key := parse.release_of(item))}),
    )
    return ObservedCluster(
        version=version,
        nodes=tuple(nodes),
        workloads=tuple(sorted(workloads, key=str)),
        releases=tuple(release for release in releases if release is not None),
        runtime_classes={
            grammar.name(item["metadata"]["name"]): str(item["handler"]) for item in classes
        },
        policies=tuple(grammar.name(item["metadata"]["name"]) for item in policies or ()),
    )


def _gpu_daemon_sets(items: Iterable[Json]) -> list[tuple[Json, str, str]]:
    """Return DaemonSets that advertise GPUs or label nodes, each with kind and software's name.

    A DaemonSet with the image of such software, but without its folders of the node, is left out.
    """
    managers = ((item, daemon_set(item)) for item in items)
    return [
        (item, "DaemonSet", manager.what)
        for item, manager in managers
        if manager and manager.reaches_node
    ]


def _operator_deployments(
    items: Iterable[Json], sets: Iterable[Json], policies: Iterable[Json]
) -> list[tuple[Json, str, str]]:
    """Return the GPU Operator's Deployments, each with its kind and the software's name.

    Any tenant may write the image's name. An operator that works has made DaemonSets for a
    ClusterPolicy in its own namespace; then Deployments in other namespaces are left out.

    Args:
        items: The cluster's Deployments.
        sets: The cluster's DaemonSets.
        policies: The cluster's ClusterPolicies.
    """
    uids = {policy["metadata"]["uid"] for policy in policies}
    made = {
        item["metadata"]["namespace"]
        for item in sets
        for owner in item["metadata"].get("ownerReferences") or []
        if owner.get("kind") == "ClusterPolicy" and owner.get("uid") in uids
    }
    return [
        (item, "Deployment", GPU_OPERATOR)
        for item in items
        if not made or item["metadata"]["namespace"] in made
        if any(
            _image_name(container["image"]) == _OPERATOR_IMAGE
            for container in item["spec"]["template"]["spec"]["containers"]
        )
    ]


def _hami_deployments(
    items: Iterable[Json], pairs: Iterable[tuple[Json, str, str]]
) -> list[tuple[Json, str, str]]:
    """Return the Deployments of HAMi's releases, such as its scheduler, each with its kind.

    A Deployment in another namespace than its release's is left out: any tenant may write the
    annotations.

    Args:
        items: The cluster's Deployments.
        pairs: GPU software of the cluster.
    """
    releases = {helm_release(item) for item, _, software in pairs if software == HAMI}
    return [
        (item, "Deployment", "")
        for item in items
        if (release := helm_release(item)) in releases
        and release is not None
        and release[0] == item["metadata"]["namespace"]
    ]


def _image_name(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


async def _list_served(
    client: Client, plural: str, base: str, version: str
) -> tuple[Json, ...] | None:
    """Return all objects of a kind; None if the cluster doesn't serve the kind."""
    try:
        return tuple(await client.list(plural, base=base, version=version))
    except Refused as error:
        if error.code == _NOT_SERVED:
            return None
        raise


async def _newest_served(client: Client, plural: str, group: str) -> tuple[Json, ...] | None:
    """Return all objects of a kind in the API server's preferred version of its group."""
    try:
        discovery = await client.request("GET", "", base=f"/apis/{group}", version="")
    except Refused as error:
        if error.code == _NOT_SERVED:
            return None
        raise
    version = grammar.api_version(discovery["preferredVersion"]["version"])
    return await _list_served(client, plural, f"/apis/{group}", version)


async def _read_deliverers(client: Client, addon_manager: bool) -> Deliverers:
    applications, helm_releases, kustomizations, helm_charts = await asyncio.gather(
        _newest_served(client, "applications", "argoproj.io"),
        _newest_served(client, "helmreleases", "helm.toolkit.fluxcd.io"),
        _newest_served(client, "kustomizations", "kustomize.toolkit.fluxcd.io"),
        _newest_served(client, "helmcharts", "helm.cattle.io"),
    )
    return Deliverers(
        applications=applications,
        helm_releases=helm_releases,
        kustomizations=kustomizations,
        helm_charts=helm_charts,
        addon_manager=addon_manager,
    )


@dataclass
class _Parts:
    """What a cluster has of one Helm release.

    Attributes:
        owners: Owners of the release's workloads.
        members: Live workloads and ClusterPolicies of the release, by kind and name.
    """

    owners: list[ManagedBy] = field(default_factory=list)
    members: dict[tuple[str, str], Json] = field(default_factory=dict)


def _by_release(
    workloads: Iterable[ObservedWorkload], items: Iterable[tuple[Json, str, str]]
) -> Mapping[tuple[str, str], _Parts]:
    """Return the parts of all releases, by namespace and name of the release.

    Args:
        workloads: GPU software of the cluster.
        items: Objects that charts create, each with its kind and the software's name.
    """
    parts: dict[tuple[str, str], _Parts] = defaultdict(_Parts)
    for workload in workloads:
        if workload.release:
            parts[workload.release].owners.append(workload.managed_by)
    for item, kind, _ in items:
        if key := parse.release_of(item):
            parts[key].members[kind, item["metadata"]["name"]] = item
    return parts


async def _release(client: Client, key: tuple[str, str], parts: _Parts) -> ObservedRelease | None:
    """Return a Helm release; None if Helm has no record of it any more."""
    namespace, name = key
    records = await secrets_of(client, name, namespace)
    if not records:
        return None
    recorded = decode_release(records[-1])
    release = observed_release(recorded, name, namespace)
    by_helm = ManagedBy(kind=ManagerKind.HELM, name=name, namespace=namespace)
    other_owners = (owner for owner in parts.owners if owner.kind is not ManagerKind.HELM)
    return replace(
        release,
        managed_by=next(other_owners, by_helm),
        is_ours=NOTED in (records[-1]["metadata"].get("annotations") or {}),
        edits=release_edits(str(recorded.get("manifest") or ""), parts.members),
    )


def observed_release(recorded: Json, name: str, namespace: str) -> ObservedRelease:
    """Return the model of a release that Helm recorded.

    Parts of the record with an unexpected type count as missing.

    Raises:
        IllFormed: Values are nested too deeply for a stack file.
    """
    chart = _dict_or_empty(recorded.get("chart"))
    metadata = _dict_or_empty(chart.get("metadata"))
    values, defaults = _dict_or_empty(recorded.get("config")), _dict_or_empty(chart.get("values"))
    if not all(map(_is_flat, (values, defaults))):
        found = f"values nested more than {DEPTH} levels deep"
        cure = (
            f"remove the nested values from the release: `helm get values -n {namespace} {name}` "
            "prints them"
        )
        raise IllFormed(Fault(f"release {namespace}/{name}", found, "values of a chart", cure))
    return ObservedRelease(
        name=name,
        namespace=namespace,
        chart=str(metadata.get("name") or ""),
        version=str(metadata.get("version") or ""),
        status=status_of(recorded),
        values=values,
        defaults=defaults,
    )


def _is_flat(value: Any) -> bool:
    """Return True if nested mappings and lists have at most `DEPTH` levels."""
    level = [value]
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _values_inside(outer)]
        if not level:
            return True
    return False


def _values_inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def release_edits(manifest: str, members: dict[tuple[str, str], Json]) -> tuple[Edit, ...]:
    """Return the fields of a release's objects that were changed without Helm.

    Args:
        manifest: The release's manifest in Helm's record.
        members: Live workloads and ClusterPolicies of the release, by kind and name.

    Raises:
        IllFormed: The manifest is no valid YAML, or too large.
    """
    field_edits: list[Edit] = []
    for item in expected(manifest):
        live = members.get((item.kind, item.name))
        if live is not None and item.body is not None:
            namespace = live["metadata"].get("namespace")
            place = f"{item.kind} {f'{namespace}/' if namespace else ''}{item.name}"
            field_edits += parse.edits(place, json.loads(item.body), live)
    return tuple(field_edits)


def _dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
