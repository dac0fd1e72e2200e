"""Program that runs a kernel on each GPU of new and changed nodes, and records the results.

A node is validated again if a fact in its record has changed (`gpu_cluster.nodes.record`), if
GPUs are missing in the record, or if the user requests it. The node gets a Job, whose pod has one
container per device; each container prints the UUID of its GPU and runs a kernel on it.
Input: `gpu_cluster.desired.validation.PoolValidation`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.desired.validation import POOL, PoolValidation
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes import applied, record, startup_taint
from gpu_cluster.nodes.causes.read import refused_jobs
from gpu_cluster.nodes.inspect import list_nodes, pool_members, shortfall, with_devices
from gpu_cluster.program import main
from gpu_cluster.validation import xid
from gpu_cluster.validation.job import JOBS, ObservedJob, job_name, observed
from gpu_cluster.validation.node import NodeCheck
from gpu_cluster.validation.node_annotations import annotate, exchange
from gpu_cluster.validation.node_result import output
from gpu_cluster.validation.selection import is_asked
from gpu_rules.faults import Fault

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
    def __init__(self, client: Client, pool: PoolValidation) -> None:
        self.client = client
        self.pool = pool
        self.checks: list[NodeCheck] = []
        self.told = time.monotonic()
        self.turn = 0
        self.surplus_told = False

    async def nodes(self) -> list[Json]:
        """Return the present nodes of the pool."""
        nodes = await with_devices(
            self.client, await list_nodes(self.client), [self.pool.resources]
        )
        return pool_members(nodes, self.pool)

    async def jobs(self) -> dict[str, ObservedJob]:
        """Return the observed state of the pool's validation Jobs, by the Job's name."""
        space, selector = f"namespaces/{self.pool.namespace}", f"{POOL}={self.pool.pool}"
        jobs = await self.client.list(f"{space}/jobs", base=JOBS, labelSelector=selector)
        pods = await self.client.list(f"{space}/pods", labelSelector=selector)
        late = any(check.is_without_pod for check in self.checks if not check.done)
        refusals = await refused_jobs(self.client, self.pool.namespace, jobs) if late else {}
        return observed(jobs, pods, refusals)

    async def is_complete(self) -> bool:
        """Take one step for each unfinished node; return whether all nodes are finished."""
        open_checks = self.next_checks()
        if not open_checks:
            return True
        if any(check.needs_node for check in open_checks):
            nodes = {node["metadata"]["name"]: node for node in await self.nodes()}
            for check in open_checks:
                check.node = nodes[check.name]
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
                deadline = time.monotonic() + self.pool.timeout_seconds
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
        reports = await xid.lines(
            self.pool.hosts, self.pool.private_key, [check.name for check in first_checks]
        )
        causes = await gather(lambda check: check.explained(), first_checks)
        for check, cause in zip(first_checks, causes, strict=True):
            report = f"; {reports[check.name]}" if check.name in reports else ""
            print(f"node {check.name}: waits: {cause}{report}", file=sys.stderr)
        if (more := len(waiting) - EXPLAINED) > 0:
            print(f"{more} more nodes wait", file=sys.stderr)


async def _daemon_sets(client: Client) -> list[Json]:
    return await client.list("daemonsets", base="/apis/apps")


LOOK = "see what `nvidia-smi` and `dmesg` on the node report about its GPUs"
"""First act where no cause was found: not a repair, because nothing shows that a part is broken."""


def _failed_nodes(
    checks: list[NodeCheck], pool: PoolValidation, total: int, reports: Mapping[str, str]
) -> Iterator[Fault]:
    failed = [check for check in checks if check.problem]
    wanted = f"all {pool.gpus} GPUs run a kernel"
    again = f"gpu-cluster validate{stack_option(pool.stack)}"
    for check in failed[:EXPLAINED]:
        closed = CLOSED if startup_taint.has_startup_taint(check.node) else ""
        reasons = (check.problem, reports.get(check.name, ""), closed)
        cause_first = "do what its cause says" if "; cure: " in check.problem else LOOK
        cure = check.cure or f"{cause_first}, then run `{again} NODES={check.name}`"
        yield Fault(f"node {check.name}", "; ".join(filter(None, reasons)), wanted, cure)
    found = f"{len(failed)} of {total} nodes whose GPUs did not all run a kernel"
    if len(failed) > EXPLAINED:
        further_nodes = ", ".join(check.name for check in failed[EXPLAINED : 4 * EXPLAINED])
        found += f", {len(failed) - EXPLAINED} more than above: {further_nodes}"
    wanted = f"all {pool.gpus} GPUs of each"
    cure = f"do what each node's own line says, then run `{again}`"
    yield Fault(f"pool {pool.pool}", found, wanted, cure)


async def validate(pool: PoolValidation) -> Json:
    """Validate new and changed nodes; return the GPUs of each node in the pool.

    Raises:
        ClusterError: Not all GPUs of some nodes ran a kernel; the error names the devices and the
            reasons. The other nodes have their records by then.
    """
    async with connect(pool.context) as client:
        run = _Run(client, pool)
        sets = await _daemon_sets(client)
        members = await _own(run, await run.nodes(), sets)
        facts = {node["metadata"]["name"]: record.facts(node, pool, sets) for node in members}
        run.checks = [
            NodeCheck(client, pool, node, facts[node["metadata"]["name"]])
            for node in members
            if due(node, pool, facts[node["metadata"]["name"]])
        ]
        if run.checks:
            await run.wait()
            failed = [check.name for check in run.checks if check.problem]
            await gather(lambda name: annotate(client, name, None), failed)
            members = await run.nodes()
        member_names = {node["metadata"]["name"] for node in members}
        await _forget_others(client, pool, lambda node: _keeps_record(node, pool, member_names))
        if any(check.problem for check in run.checks):
            names = [check.name for check in run.checks if check.problem][:EXPLAINED]
            reports = await xid.lines(pool.hosts, pool.private_key, names)
            raise ClusterError(*_failed_nodes(run.checks, pool, len(members), reports))
        return output(pool, members)


async def _own(run: _Run, members: list[Json], daemon_sets: list[Json]) -> list[Json]:
    """Take over valid records of nodes moved from another pool; return the pool's nodes.

    The other pool's Command removes records that still name that pool. If it removes a record at
    the same moment, the record can't be taken over and the node is validated.
    """
    pool = run.pool
    moved = {}
    for node in members:
        validation = record.decode(node)
        if validation and validation.manager != pool.manager:
            taken_over = replace(validation, manager=pool.manager)
            node = _with_record(node, taken_over)
            if not due(node, pool, record.facts(node, pool, daemon_sets)):
                moved[node["metadata"]["name"]] = taken_over
    if not moved:
        return members
    coming = [node for node in members if node["metadata"]["name"] in moved]
    await gather(lambda n: exchange(run.client, n, moved[n["metadata"]["name"]]), coming)
    return await run.nodes()


def _with_record(node: Json, validation: record.ValidationRecord) -> Json:
    annotations = {**node["metadata"]["annotations"], record.RECORD: record.encode(validation)}
    return {**node, "metadata": {**node["metadata"], "annotations": annotations}}


async def validate_nodes(client: Client, pool: PoolValidation, names: set[str]) -> None:
    """Validate the named nodes of a pool again, even if their records are valid.

    Raises:
        ClusterError: Not all GPUs of some nodes ran a kernel.
    """
    run = _Run(client, pool)
    sets = await _daemon_sets(client)
    run.checks = [
        NodeCheck(client, pool, node, record.facts(node, pool, sets))
        for node in await run.nodes()
        if node["metadata"]["name"] in names
    ]
    await run.wait()
    failed = [check.name for check in run.checks if check.problem]
    await gather(lambda name: annotate(client, name, None), failed)
    if failed:
        reports = await xid.lines(pool.hosts, pool.private_key, failed[:EXPLAINED])
        raise ClusterError(*_failed_nodes(run.checks, pool, len(run.checks), reports))


async def _forget_others(
    client: Client, pool: PoolValidation, stays: Callable[[Json], bool]
) -> None:
    """Remove the pool's validation records of nodes, except nodes in maintenance.

    A record that another pool's Command has written in the meantime is kept.

    Args:
        stays: Function that returns whether a node keeps its record.
    """
    for node in await list_nodes(client):
        validation = record.decode(node)
        if validation is None or validation.manager != pool.manager or stays(node):
            continue
        if node["metadata"]["name"] not in pool.maintenance:
            await exchange(client, node, None)


def _keeps_record(node: Json, pool: PoolValidation, members: set[str]) -> bool:
    """Return True if a node is in this pool, or in another pool that takes over its record."""
    annotations = node["metadata"].get("annotations") or {}
    in_pools = {key for key in annotations if key.startswith(applied.PREFIX)}
    return node["metadata"]["name"] in members or bool(in_pools - {applied.PREFIX + pool.pool})


async def forget(pool: PoolValidation) -> Json:
    """Remove the records of a pool's nodes, when the stack is destroyed."""
    async with connect(pool.context) as client:
        await _forget_others(client, pool, lambda _: False)
    return {}


if __name__ == "__main__":
    main(PoolValidation, {"validate": validate, "forget": forget})
