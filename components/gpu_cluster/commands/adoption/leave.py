"""Release a cluster from a stack: remove the stack's annotations, records and backups.

Labels, taints, Helm releases and objects stay in the cluster.

Every function can run again after it was interrupted.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.kubernetes.api import JSON_PATCH, Client, Json, Refused
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.labels import LABELS, MANAGER, pool_manager
from gpu_cluster.nodes import record, startup_taint
from gpu_cluster.nodes.applied import every
from gpu_cluster.nodes.inspect import CORDONED, list_nodes
from gpu_cluster.platforms.requests import Expected, HelmRelease
from gpu_cluster.release.helm_record import MERGE, NOTED, secrets_of
from gpu_cluster.release.objects import Kinds
from gpu_cluster.ssh.answers import NOTHING
from gpu_cluster.ssh.client import reached, run, shell
from gpu_cluster.ssh.login import LoginFailed
from gpu_rules.faults import Fault

OURS = "gpu-cluster/"
"""Prefix of the annotations that this program writes on nodes."""
LIMIT = 30.0
"""Seconds for the removal of one host's backups, after the login."""
# Folders on hosts in which the host scripts keep records of applied settings and backups of files
# (`docs/how-to/bare-hosts.md`). Files that the scripts installed are in other folders.
_BACKUPS = ("var/lib/gpu-cluster", "run/gpu-cluster")


@dataclass(frozen=True, kw_only=True)
class Handed:
    """Stack and pools that are released from this program.

    Attributes:
        managers: Field managers of the pools' labels and of the MIG layouts.
        pools: Names of the pools; empty for all pools of the stack, also those no longer declared.
    """

    stack: str
    managers: frozenset[str]
    pools: frozenset[str] = frozenset()

    def manager_of(self, pool: str) -> str:
        """Return the field manager of a pool's labels."""
        return pool_manager(self.stack, pool)


def is_handed(node: Json, handed: Handed) -> bool:
    """Return True if a node has annotations of the stack for a pool that is released."""
    records = {record.pool for record in every(node, handed.stack)}
    if handed.pools:
        return bool(records & handed.pools)
    proof = record.decode(node)
    return bool(records) or (proof is not None and proof.manager in handed.managers)


def unready(nodes: Sequence[Json], handed: Handed) -> list[Fault]:
    """Return a fault for each node on which an interrupted run left a change unfinished."""
    return [
        Fault(
            f"node {node['metadata']['name']}",
            "the start-up taint" if startup_taint.has_startup_taint(node) else "a cordon of a run",
            "a node without an unfinished change, because no later run would finish it",
            f"run `gpu-cluster up{stack_option(handed.stack)}` first",
        )
        for node in nodes
        if is_handed(node, handed)
        and (
            startup_taint.has_startup_taint(node)
            or CORDONED in (node["metadata"].get("annotations") or {})
        )
    ]


def node_patch(node: Json, handed: Handed) -> list[Json]:
    """Return the JSON patch that removes the stack's annotations and field ownership from a node.

    Without a field owner, the labels stay although no client applies them any more.
    """
    metadata = node["metadata"]
    managers = {
        *handed.managers,
        startup_taint.MANAGER,
        *(handed.manager_of(record.pool) for record in every(node, handed.stack)),
    }
    fields = metadata.get("managedFields") or []
    remaining = [entry for entry in fields if entry["manager"] not in managers]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        *(
            {"op": "remove", "path": f"/metadata/annotations/{_escape_pointer(key)}"}
            for key in metadata.get("annotations") or {}
            if key.startswith(OURS)
        ),
        {"op": "replace", "path": "/metadata/managedFields", "value": remaining},
    ]


def _escape_pointer(key: str) -> str:
    """Return a label or annotation key, escaped for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


async def leave_nodes(client: Client, handed: Handed) -> list[str]:
    """Remove the stack's annotations from its nodes; return the names of the changed nodes.

    Raises:
        ClusterError: The API server refused a change, or other clients changed a node at each
        attempt.
    """
    nodes = [node for node in await list_nodes(client) if is_handed(node, handed)]

    async def leave(node: Json) -> str:
        name = str(node["metadata"]["name"])
        for attempt in range(ATTEMPTS):
            try:
                await client.request(
                    "PATCH",
                    f"nodes/{name}",
                    body=node_patch(node, handed),
                    content_type=JSON_PATCH,
                )
                return name
            except Refused as error:
                if error.code not in (409, 422) or attempt == ATTEMPTS - 1:
                    raise
                node = await client.request("GET", f"nodes/{name}")
        return name

    return await gather(leave, nodes)


ATTEMPTS = 8
"""Maximum number of attempts to update a node that other clients update at the same time."""


async def leave_objects(client: Client, objects: Collection[Expected]) -> list[str]:
    """Remove the stack's label and annotation from objects; return the changed objects as text."""
    kinds = Kinds(client)
    for item in objects:
        await kinds.url(item)

    async def leave(item: Expected) -> str:
        location = await kinds.url(item)
        if location is None:
            return ""
        path, base, version = location
        notes = {"labels": dict.fromkeys(LABELS), "annotations": {MANAGER: None}}
        try:
            live = await client.request("GET", path, base=base, version=version)
            if not LABELS.items() <= (live["metadata"].get("labels") or {}).items():
                return ""
            await client.request(
                "PATCH",
                path,
                base=base,
                version=version,
                body={"metadata": notes},
                content_type=MERGE,
            )
        except Refused as error:
            if error.code != 404:
                raise
            return ""
        return str(item)

    return [text for text in await gather(leave, objects) if text]


async def delete_objects(client: Client, objects: Collection[Expected]) -> None:
    """Delete objects that only the stack uses, such as the namespace of its validation pods."""
    kinds = Kinds(client)
    for item in objects:
        location = await kinds.url(item)
        if location is None:
            continue
        path, base, version = location
        try:
            await client.request("DELETE", path, base=base, version=version)
        except Refused as error:
            if error.code != 404:
                raise


async def leave_releases(client: Client, releases: Collection[HelmRelease]) -> list[str]:
    """Remove the stack's annotation from Helm's release records; return the releases as text."""
    for release in releases:
        for secret in await secrets_of(client, release.name, release.namespace):
            if NOTED in (secret["metadata"].get("annotations") or {}):
                await client.request(
                    "PATCH",
                    f"namespaces/{release.namespace}/secrets/{secret['metadata']['name']}",
                    body={"metadata": {"annotations": {NOTED: None}}},
                    content_type=MERGE,
                )
    return [str(release) for release in releases]


async def leave_host(host: DesiredHost, private_key: str) -> Fault | None:
    """Remove a host's records of applied settings, and backups; return why that failed, or None.

    Files that the stack installed on the host stay as they are.
    """
    paths = " ".join(f'"${{GPU_CLUSTER_ROOT-}}"/{shlex.quote(path)}' for path in _BACKUPS)
    try:
        async with reached(host, private_key) as connection:
            removal = f"rm -rf -- {paths}\n"
            result = await run(connection, shell(host, LIMIT), removal, NOTHING, LIMIT)
    except LoginFailed as error:
        return _kept_records(host, error.failure.found, error.failure.cure)
    if result.status == 0:
        return None
    found = " ".join(result.errors) or f"status {result.status}"
    return _kept_records(host, found, "correct what the message names, and run again")


def _kept_records(host: DesiredHost, found: str, cure: str) -> Fault:
    return Fault(
        f"host {host.name}",
        found,
        "a login, to remove the stack's records and backups",
        f"{cure}; if the host is gone, run `gpu-cluster forget {host.name}`, and remove the host "
        "from the stack file",
    )
