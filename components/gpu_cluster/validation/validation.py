"""Program that runs a kernel on each GPU of new and changed nodes, and records the results.

A node is validated again if a fact in its record has changed (`gpu_cluster.nodes.record`), if
GPUs are missing in the record, or if the user requests it. The node gets a Job, whose pod has one
container per device; each container prints the UUID of its GPU and runs a kernel on it.
Input: `gpu_cluster.desired.validation.PoolsValidation`. A Command in the state of an earlier
version has one pool, as a `PoolValidation`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.desired.validation import POOL, PoolsValidation, PoolValidation
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes import gpu_holders, record, startup_taint
from gpu_cluster.nodes.causes.read import refused_jobs
from gpu_cluster.nodes.inspect import (
    list_nodes,
    members_of_pools,
    node_name,
    pool_members,
    shortfall,
    with_devices,
)
from gpu_cluster.program import main
from gpu_cluster.validation import xid
from gpu_cluster.validation.job import JOBS, ObservedJob, job_name, observed
from gpu_cluster.validation.node import NodeCheck
from gpu_cluster.validation.node_annotations import annotate, exchange
from gpu_cluster.validation.node_result import output
from gpu_cluster.validation.selection import is_asked
from gpu_rules.faults import Fault

PoolNodes = list[tuple[PoolValidation, list[Json]]]
"""Pools, each with its nodes."""
INTERVAL = 0.5
"""Seconds between two checks of the Jobs."""
NODES_A_SECOND = 400
"""Nodes checked per second; larger pools are checked less often, to limit the API server's load."""
AT_ONCE = 200
"""Maximum number of nodes whose Jobs exist at the same time.

A Job has a deadline, and its controller sends 20 requests a second by default
(kube-controller-manager, `--kube-api-qps`), about five of them for each Job. With this number, the
last of these Jobs gets its pod within a minute.
"""
TOLD = 10.0
"""Seconds between two progress messages."""
CLOSED = f"it takes no pods (taint {startup_taint.TAINT['key']})"
EXPLAINED = 10
"""Maximum number of nodes that one message explains; other nodes are only counted."""


def due(node: Json, pool: PoolValidation, facts: dict[str, str]) -> bool:
    """Return True if a node must be validated in this run."""
    validation = record.decode(node)
    return (
        validation is None
        or validation.manager != pool.manager
        or validation.missing > 0
        or bool(record.changes(validation, facts))
        or bool(shortfall(node, pool.gpus, pool.resources))
        or is_asked(node["metadata"]["name"])
    )


class _Run:
    def __init__(self, client: Client, pools: Sequence[PoolValidation]) -> None:
        self.client = client
        self.pools = pools
        self.checks: list[NodeCheck] = []
        self.told = time.monotonic()
        self.turn = 0
        self.surplus_told = False

    async def nodes(self) -> list[Json]:
        """Return the nodes of the cluster, with their devices."""
        resources = [pool.resources for pool in self.pools]
        return await with_devices(self.client, await list_nodes(self.client), resources)

    async def find_free_nodes(self) -> None:
        """Mark the nodes whose GPUs no pod holds, if one list of all pods is less than a look each.

        A node that is held is looked at again when its Job could begin.
        """
        if len(self.checks) <= gpu_holders.SINGLE:
            return
        names = [check.name for check in self.checks]
        resources = {name for pool in self.pools for name in pool.resources}
        holders = await gpu_holders.holders_by_node(
            self.client, names, resources, self.pools[0].namespace
        )
        for check in self.checks:
            check.is_free = not any(holder.amounts for holder in holders[check.name])

    async def jobs(self) -> dict[str, ObservedJob]:
        """Return the observed state of the validation Jobs, by the Job's name."""
        namespace = self.pools[0].namespace
        space = f"namespaces/{namespace}"
        jobs = await self.client.list(f"{space}/jobs", base=JOBS, labelSelector=POOL)
        pods = await self.client.list(f"{space}/pods", labelSelector=POOL)
        late = any(check.is_without_pod for check in self.checks if not check.done)
        refusals = await refused_jobs(self.client, namespace, jobs) if late else {}
        return observed(jobs, pods, refusals)

    async def is_complete(self) -> bool:
        """Take one step for each unfinished node; return whether all nodes are finished."""
        open_checks = self.next_checks()
        if not open_checks:
            return True
        if any(check.needs_node for check in open_checks):
            by_name = {node_name(node): node for node in await self.nodes()}
            for check in open_checks:
                check.use(by_name.get(check.name))
            open_checks = [check for check in open_checks if not check.done]
        jobs, none = await self.jobs(), ObservedJob()
        await gather(lambda check: check.step(jobs.get(job_name(check.name), none)), open_checks)
        return all(check.done for check in self.checks)

    def next_checks(self) -> list[NodeCheck]:
        """Return the unfinished nodes that have a Job, and other nodes in turn up to the limit."""
        unfinished = [check for check in self.checks if not check.done]
        with_job = [check for check in unfinished if check.asked]
        without_job = [check for check in unfinished if not check.asked]
        places = max(0, AT_ONCE - len(with_job))
        if len(without_job) > places:
            # Don't let a node whose GPUs are in use delay the validation of other nodes.
            first = self.turn % len(without_job)
            without_job = [*without_job[first:], *without_job[:first]][:places]
            self.turn += places
        return [*with_job, *without_job]

    async def wait(self) -> None:
        """Repeat the steps until each node is finished, or none makes progress for too long."""
        progress, deadline = -1, 0.0
        pause = max(INTERVAL, len(self.checks) / NODES_A_SECOND)
        while not await self.is_complete():
            earlier, progress = progress, sum(check.progress for check in self.checks)
            if progress > earlier:
                deadline = time.monotonic() + self.pools[0].timeout_seconds
            elif time.monotonic() >= deadline:
                break
            await self.tell()
            await asyncio.sleep(pause)
        await gather(lambda check: check.give_up(), [c for c in self.checks if not c.done])

    async def tell(self) -> None:
        """Print regularly what the nodes wait for, with causes and XID lines of their hosts.

        The first time that a node advertises more GPUs than declared, print it immediately: waiting
        seldom helps.
        """
        waiting = [check for check in self.checks if not check.done and check.waits]
        first = not self.surplus_told and any(check.has_surplus for check in waiting)
        if not waiting or (time.monotonic() - self.told < TOLD and not first):
            return
        self.surplus_told = self.surplus_told or first
        self.told = time.monotonic()
        first_checks = waiting[:EXPLAINED]
        reports = await self.reports(first_checks)
        causes = await gather(lambda check: check.explained(), first_checks)
        for check, cause in zip(first_checks, causes, strict=True):
            report = f"; {reports[check.name]}" if check.name in reports else ""
            print(f"node {check.name}: waits: {cause}{report}", file=sys.stderr)
        if (more := len(waiting) - EXPLAINED) > 0:
            print(f"{more} more nodes wait", file=sys.stderr)

    async def reports(self, checks: Sequence[NodeCheck]) -> dict[str, str]:
        """Return the XID lines in the kernel logs of nodes' hosts, by node."""
        hosts = {name: host for pool in self.pools for name, host in pool.hosts.items()}
        key = next((pool.private_key for pool in self.pools if pool.private_key), "")
        return await xid.lines(hosts, key, [check.name for check in checks])

    async def failures(self, total: Mapping[str, int]) -> ClusterError | None:
        """Return the error about the nodes that failed; None if none did.

        Args:
            total: Number of nodes, by pool.
        """
        failed = [check for check in self.checks if check.problem]
        if not failed:
            return None
        reports, explained = await self.reports(failed[:EXPLAINED]), EXPLAINED
        faults: list[Fault] = []
        for pool in self.pools:
            of_pool = [check for check in failed if check.pool is pool]
            if of_pool:
                faults += _failed_nodes(of_pool, pool, total[pool.pool], reports, explained)
                explained = max(0, explained - len(of_pool))
        return ClusterError(*faults)


LOOK = "see what `nvidia-smi` and `dmesg` on the node report about its GPUs"
"""First act where no cause was found: not a repair, because nothing shows that a part is broken."""


def _failed_nodes(
    failed: Sequence[NodeCheck],
    pool: PoolValidation,
    total: int,
    reports: Mapping[str, str],
    explained: int = EXPLAINED,
) -> Iterator[Fault]:
    """Yield a fault for each of the first failed nodes of a pool, and one for the pool.

    Args:
        total: Number of nodes of the pool.
        reports: XID lines of hosts, by node.
        explained: Maximum number of nodes with a fault of their own.
    """
    wanted = f"all {pool.gpus} GPUs run a kernel"
    again = f"gpu-cluster validate{stack_option(pool.stack)}"
    for check in failed[:explained]:
        closed = CLOSED if startup_taint.has_startup_taint(check.node) else ""
        reasons = (check.problem, reports.get(check.name, ""), closed)
        cause_first = "do what its cause says" if "; cure: " in check.problem else LOOK
        cure = check.cure or f"{cause_first}, then run `{again} NODES={check.name}`"
        yield Fault(f"node {check.name}", "; ".join(filter(None, reasons)), wanted, cure)
    found = f"{len(failed)} of {total} nodes whose GPUs did not all run a kernel"
    if len(failed) > explained:
        further_nodes = ", ".join(check.name for check in failed[explained : 4 * EXPLAINED])
        found += f", {len(failed) - explained} more than above: {further_nodes}"
    wanted = f"all {pool.gpus} GPUs of each"
    cure = f"do what each node's own line says, then run `{again}`"
    yield Fault(f"pool {pool.pool}", found, wanted, cure)


def _pools_with_key(request: PoolsValidation | PoolValidation) -> tuple[PoolValidation, ...]:
    """Return the pools of a request; those with hosts have the private key."""
    if isinstance(request, PoolValidation):
        return (request,)
    key = request.private_key
    return tuple(replace(pool, private_key=key) if pool.hosts else pool for pool in request.pools)


async def validate(request: PoolsValidation | PoolValidation) -> Json:
    """Validate new and changed nodes; return the GPUs of each node in the pools.

    Raises:
        ClusterError: Not all GPUs of some nodes ran a kernel; the error names the devices and the
            reasons. The other nodes have their records by then.
    """
    pools = _pools_with_key(request)
    async with connect(request.context) as client:
        run = _Run(client, pools)
        sets = await record.list_daemon_sets(client, pools)
        nodes = await run.nodes()
        if await _take_over(client, members_of_pools(nodes, pools), sets):
            nodes = await run.nodes()
        members = members_of_pools(nodes, pools)
        for pool, of_pool in members:
            for node in of_pool:
                facts = record.facts(node, pool, sets)
                if due(node, pool, facts):
                    run.checks.append(NodeCheck(client, pool, node, facts))
        if run.checks:
            await run.find_free_nodes()
            await run.wait()
            failed = [check.name for check in run.checks if check.problem]
            await gather(lambda name: annotate(client, name, None), failed)
            nodes = await run.nodes()
            members = members_of_pools(nodes, pools)
        await _forget_former(client, nodes, members)
        if error := await run.failures({pool.pool: len(of_pool) for pool, of_pool in members}):
            raise error
    results = [output(pool, of_pool) for pool, of_pool in members]
    return {
        "nodes": [
            {**node, "pool": result["pool"]} for result in results for node in result["nodes"]
        ]
    }


async def _take_over(client: Client, members: PoolNodes, daemon_sets: list[Json]) -> bool:
    """Take over valid records of nodes moved from another pool; return whether there were any.

    The same is done with records of the Command of one pool, in the state of an earlier version.
    If that Command removes a record at the same moment, the record can't be taken over and the node
    is validated.
    """
    moved = []
    for pool, nodes in members:
        for node in nodes:
            validation = record.decode(node)
            if validation is None or (
                validation.manager == pool.manager and validation.stack == pool.stack
            ):
                continue
            taken_over = replace(validation, manager=pool.manager, stack=pool.stack)
            after = _with_record(node, taken_over)
            if not due(after, pool, record.facts(after, pool, daemon_sets)):
                moved.append((node, taken_over))
    await gather(lambda each: exchange(client, *each), moved)
    return bool(moved)


def _with_record(node: Json, validation: record.ValidationRecord) -> Json:
    annotations = {**node["metadata"]["annotations"], record.RECORD: record.encode(validation)}
    return {**node, "metadata": {**node["metadata"], "annotations": annotations}}


async def validate_nodes(client: Client, pool: PoolValidation, names: set[str]) -> None:
    """Validate the named nodes of a pool again, even if their records are valid.

    Raises:
        ClusterError: Not all GPUs of some nodes ran a kernel.
    """
    run = _Run(client, (pool,))
    sets = await record.list_daemon_sets(client, (pool,))
    run.checks = [
        NodeCheck(client, pool, node, record.facts(node, pool, sets))
        for node in pool_members(await run.nodes(), pool)
        if node_name(node) in names
    ]
    await run.wait()
    failed = [check.name for check in run.checks if check.problem]
    await gather(lambda name: annotate(client, name, None), failed)
    if error := await run.failures({pool.pool: len(run.checks)}):
        raise error


async def _forget_former(client: Client, nodes: list[Json], members: PoolNodes) -> None:
    """Remove the stack's records of nodes that are in no pool any more, except in maintenance.

    Args:
        nodes: The nodes of the cluster.
        members: The nodes of each pool.
    """
    pools = [pool for pool, _ in members]
    keep = {node_name(node) for _, of_pool in members for node in of_pool}
    keep |= {name for pool in pools for name in pool.maintenance}
    for node in nodes:
        validation = record.decode(node)
        if validation and validation.stack == pools[0].stack and node_name(node) not in keep:
            await exchange(client, node, None)


async def forget(request: PoolsValidation | PoolValidation) -> Json:
    """Remove the records of the pools' nodes, except in maintenance, when the Command is deleted.

    A Command of one pool, in the state of an earlier version, keeps the records that the Command of
    all pools has taken over.
    """
    managers = {pool.manager: pool for pool in _pools_with_key(request)}
    is_alone = isinstance(request, PoolValidation)
    async with connect(request.context) as client:
        for node in await list_nodes(client):
            validation = record.decode(node)
            pool = managers.get(validation.manager) if validation else None
            if validation is None or pool is None or node_name(node) in pool.maintenance:
                continue
            if not (is_alone and validation.stack):
                await exchange(client, node, None)
    return {}


if __name__ == "__main__":
    main(PoolsValidation | PoolValidation, {"validate": validate, "forget": forget})
