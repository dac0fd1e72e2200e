"""Run `gpu-cluster leave`: stop managing a cluster, or a part of it, without changing it.

Releases, objects, labels, taints and files on hosts stay. The state, the annotations on nodes and
the backups on hosts are removed. A user may release only the nodes of a pool, or only hosts; both
also remove the pool or hosts from the stack file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi import automation

from gpu_cluster.commands.adoption import leave
from gpu_cluster.commands.adoption.leave import Handed
from gpu_cluster.commands.adoption.stack_text import settings_of, with_sections
from gpu_cluster.commands.contexts import require_context, require_own_state
from gpu_cluster.commands.engine import select
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.left import Resources, name_of, of_host
from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state import export_state, remove_from_state, resources_of
from gpu_cluster.commands.state_copies import keep_copy
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.pool import DesiredScheduling
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import DesiredMigLayouts
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.nodes.inspect import list_nodes
from gpu_cluster.platforms.base import RUNTIME_CLASS
from gpu_cluster.platforms.requests import Expected, HelmRelease
from gpu_cluster.release.recorded import RELEASE
from gpu_cluster.settings.nodes.node_range import expand, natural_order
from gpu_cluster.ssh.key_files import KEY_FILE
from gpu_rules.faults import Fault, FaultError, show
from gpu_rules.printable import counted

PREFIX = "kubernetes:"
VALIDATION = "-validation-"
"""Part of the names of resources that are only used for the validation."""


@dataclass(frozen=True, kw_only=True)
class InCluster:
    """Objects of the cluster that are recorded in a Pulumi state.

    Attributes:
        kept: Objects that stay in the cluster.
        deleted: Objects that are deleted, because only the stack uses them.
    """

    releases: tuple[HelmRelease, ...]
    kept: tuple[Expected, ...]
    deleted: tuple[Expected, ...]


def in_cluster(resources: Iterable[Mapping[str, Any]]) -> InCluster:
    """Return the cluster's objects that a Pulumi state records."""
    releases: list[HelmRelease] = []
    kept_objects: list[Expected] = []
    deleted: list[Expected] = []
    for resource in resources:
        kind, outputs = resource["type"], resource.get("outputs") or {}
        if kind == RELEASE:
            name, namespace = outputs["name"], outputs["namespace"]
            releases.append(HelmRelease(name=name, namespace=namespace))
            kept_objects.append(Expected("node.k8s.io/v1", "RuntimeClass", "", RUNTIME_CLASS))
        elif kind.startswith(PREFIX) and "metadata" in outputs:
            metadata = outputs["metadata"]
            item = Expected(
                outputs["apiVersion"],
                outputs["kind"],
                metadata.get("namespace") or "",
                metadata["name"],
            )
            only_ours = VALIDATION in name_of(resource["urn"])
            (deleted if only_ours else kept_objects).append(item)
    return InCluster(releases=tuple(releases), kept=tuple(kept_objects), deleted=tuple(deleted))


def of_pool(resources: Iterable[Mapping[str, Any]], pool: str) -> list[str]:
    """Return the URNs of a pool's own Commands, which the state of an earlier version has.

    Otherwise one Command sets the labels of all pools and another validates them. Neither changes
    anything of a pool whose nodes have been left.
    """
    ends = (f"-node-scheduling-{pool}", f"-validation-{pool}")
    return [resource["urn"] for resource in resources if name_of(resource["urn"]).endswith(ends)]


def handed(
    stack: str,
    scheduling: DesiredScheduling,
    layouts: DesiredMigLayouts,
    pools: Collection[str] = (),
) -> Handed:
    """Return the annotations and field managers that `gpu-cluster leave` removes from nodes.

    Args:
        scheduling: Labels and taints of the stack's nodes.
        layouts: MIG layouts of the stack's nodes.
        pools: The pools to hand back. Empty: all.
    """
    managers = {pool.manager for pool in scheduling.pools if not pools or pool.pool in pools}
    if not pools:
        managers.add(layouts.manager)
    return Handed(stack=stack, managers=frozenset(managers), pools=frozenset(pools))


async def require_ready(context: str, handed_over: Handed) -> None:
    """Check, before anything is handed back, that no run left a change of a node unfinished.

    Raises:
        FaultError: An interrupted run left a change of a node unfinished.
    """
    async with connect(context) as client:
        if faults := leave.unready(await list_nodes(client), handed_over):
            raise FaultError(*faults)


async def leave_cluster(context: str, handed_over: Handed, objects: InCluster) -> list[str]:
    """Stop managing the cluster's objects and nodes; return the names of the nodes.

    Raises:
        ClusterError: The API server refused a change.
    """
    async with connect(context) as client:
        nodes = await leave.leave_nodes(client, handed_over)
        await leave.leave_releases(client, objects.releases)
        await leave.leave_objects(client, objects.kept)
        await leave.delete_objects(client, objects.deleted)
    return nodes


def leave_hosts(hosts: Sequence[DesiredHost], private_key: str) -> None:
    """Remove records and backups from hosts, in parallel.

    Raises:
        FaultError: A host can't be reached, or rejects the login or the removal.
    """

    async def leave_all() -> list[Fault | None]:
        return await asyncio.gather(*(leave.leave_host(host, private_key) for host in hosts))

    if faults := [fault for fault in (asyncio.run(leave_all()) if hosts else ()) if fault]:
        raise FaultError(*faults)


def private_key_of(selected: automation.Stack) -> str:
    """Return the stack's SSH private key, from its configuration or from the key file."""
    settings = selected.get_all_config()
    if key := settings.get("gpu-cluster:sshPrivateKey"):
        return str(key.value)
    path = os.environ.get(KEY_FILE)
    return Path(path).read_text(encoding="utf-8") if path else ""


def take_out(stack: Stack, pool: str, hosts: Collection[str]) -> None:
    """Remove a pool or hosts from the stack file, unless the file does not declare them."""
    text = stack.file.read_text(encoding="utf-8")
    settings = settings_of(text)
    pools = [listed_pool for listed_pool in settings["pools"] if listed_pool.get("name") != pool]
    listed = [
        listed_host
        for listed_host in settings.get("hosts", [])
        if listed_host.get("name") not in hosts
    ]
    sections = {"pools": pools, "hosts": listed or None}
    stack.file.write_text(with_sections(text, sections), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Part that is no longer managed: a pool, hosts, or the whole stack if both are empty."""

    pool: str = ""
    hosts: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the part of the stack as text for messages."""
        pool_texts = [f"pool {self.pool}"] if self.pool else []
        return " and ".join([*pool_texts, *(["hosts"] if self.hosts else [])]) or "the whole stack"

    @property
    def is_all(self) -> bool:
        """Return True if the part is the whole stack."""
        return not self.pool and not self.hosts


def chosen(stack: Stack, pool: str, text: str) -> Part:
    """Return the part of a stack that a user names.

    Args:
        stack: The stack.
        pool: Name of a pool, or empty.
        text: Names and ranges of hosts, separated by commas, or empty.

    Raises:
        FaultError: The stack has no such pool or host, or no pool would be left in the stack.
    """
    patterns = filter(None, map(str.strip, text.split(",")))
    hosts = tuple(name for pattern in patterns for name in expand(pattern))
    pools = [known_pool.name for known_pool in stack.cluster.pools]
    known_hosts = {host.name for host in stack.cluster.hosts}
    if pool and (pool not in pools or len(pools) == 1):
        found = "the only pool" if pool in pools else "no such pool"
        cure = (
            "leave --pool out to hand back everything"
            if pool in pools
            else "correct the name of the pool"
        )
        raise FaultError(
            Fault(
                f"--pool {show(pool)}",
                found,
                f"one of several pools: {', '.join(pools)}",
                cure,
            )
        )
    if strange := sorted(set(hosts) - known_hosts, key=natural_order):
        raise FaultError(
            Fault(
                f"--hosts {show(text)}",
                f"no host {show(strange[0])}",
                "hosts of the stack file",
                f"take {show(strange[0])} out of --hosts",
            )
        )
    # Remove the hosts of the pool, too: the stack file must not declare hosts without a pool.
    left_pools = [known_pool for known_pool in stack.cluster.pools if known_pool.name == pool]
    members = {name for known_pool in left_pools for name in known_pool.node_names}
    of_nodes = tuple(host.name for host in stack.cluster.hosts if host.node in members)
    return Part(pool=pool, hosts=tuple(dict.fromkeys((*hosts, *of_nodes))))


def run(stack: Stack, stack_part: Part, json_output: Answer) -> None:
    """Stop managing a part of the stack, or the whole stack.

    Raises:
        FaultError: A part could not be released. Parts that were released stay so; the Pulumi state
        is kept.
    """
    require_context(stack)
    require_own_state(stack)
    if cluster := embedded_cluster(stack):
        cluster.require_running()
    desired, selected = resolve(stack.cluster, stack.name), select(stack)
    exported = export_state(selected)
    resources: Resources = resources_of(exported)
    hosts = [host for host in desired.hosts if stack_part.is_all or host.name in stack_part.hosts]
    of_cluster = bool(stack_part.pool) or stack_part.is_all
    pools = [stack_part.pool] if stack_part.pool else []
    handed_over = handed(desired.stack, desired.scheduling, desired.layouts, pools)
    if of_cluster:
        asyncio.run(require_ready(desired.context, handed_over))
    keep_copy(stack, exported)
    leave_hosts(hosts, private_key_of(selected) if hosts else "")
    nodes: list[str] = []
    if of_cluster:
        objects = in_cluster(resources if stack_part.is_all else [])
        nodes = asyncio.run(leave_cluster(desired.context, handed_over, objects))
    json_output["nodes"], json_output["hosts"] = nodes, [host.name for host in hosts]
    if stack_part.is_all:
        selected.workspace.remove_stack(stack.name, force=True, preserve_config=True)
    elif exported.deployment is not None:
        gone = of_pool(resources, stack_part.pool) if stack_part.pool else []
        gone += [urn for host in stack_part.hosts for urn in of_host(resources, host)]
        remove_from_state(selected, exported, gone)
        take_out(stack, stack_part.pool, stack_part.hosts)


def main(*, pool: str = "", hosts: str = "") -> None:
    """Stop managing a stack, or a part of it; exit with 1 on failure.

    Args:
        pool: Only the nodes of this pool.
        hosts: Only these hosts: names and ranges, separated by commas.
    """
    stack = Stack.current()
    with answering("leave") as json_output, stack.held("gpu-cluster leave"):
        try:
            stack_part = chosen(stack, pool, hosts)
            with stack.unsalted():
                run(stack, stack_part, json_output)
        except FaultError as error:
            sys.exit(f"leave: the state was kept; fix the cause and run it again.\n{error}")
        nodes, hosts_left = len(json_output["nodes"]), len(json_output["hosts"])
        print(
            f"leave: {stack_part} handed back: {counted(nodes, 'node')}, "
            f"{counted(hosts_left, 'host')}; "
            "software, labels, taints and files stay as they are"
        )
