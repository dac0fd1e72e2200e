"""Run `gpu-cluster who`: which pods hold which GPUs, and how many are free; it only reads.

If the cluster serves utilization as a custom metric, pods whose GPUs don't compute are marked idle.
The rights of a preview are enough. --output json prints the whole as data, --verbose one line per
pod.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpu_cluster.change.names import LONGEST, and_more, listed
from gpu_cluster.commands.node_table import WIDTH
from gpu_cluster.commands.output import apart, verbose
from gpu_cluster.commands.reading import reading
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.usage import Holder, Listed, NodeUsage, Usage, total, usage
from gpu_cluster.commands.usage import listed as listed_objects
from gpu_cluster.commands.utilization import holders, measured, merge, namespaces
from gpu_cluster.desired.pool import DesiredScheduling
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import DesiredValidation
from gpu_cluster.kubernetes.api import Client, connect
from gpu_rules.printable import counted, printable

MOST = 60
"""Maximum number of rows of a table; further rows are only counted."""
SINGLE = 40
"""Maximum number of holders with a line each; else those of one namespace on a node share one."""
NAMED = 5
"""Maximum number of waiting and of idle pods that are named; further pods are only counted."""
REASONS = 3
"""Maximum number of reasons for missing utilization that are printed."""
UNITS = ((86400, "d"), (3600, "h"), (60, "min"))
"""Units of an age with their seconds, the longest first."""


async def observed(
    context: str, stack: str, scheduling: DesiredScheduling, validation: DesiredValidation
) -> Usage:
    """Read from a stack's cluster who holds its GPUs, and how busy these are.

    Args:
        scheduling: Nodes of the stack's pools.
        validation: GPU resources of the stack's pools.

    Raises:
        ClusterError: The cluster can't be reached, or doesn't allow to list nodes or pods.
    """
    async with connect(context) as client:
        objects = await listed_objects(client)
        return await held(stack, scheduling, validation, client, objects)


async def held(
    stack: str,
    scheduling: DesiredScheduling,
    validation: DesiredValidation,
    client: Client,
    objects: Listed,
) -> Usage:
    """Return who holds the GPUs of a stack's cluster, and read how busy these are.

    Args:
        scheduling: Nodes of the stack's pools.
        validation: GPU resources of the stack's pools.
        objects: Objects that were read from the cluster.
    """
    names = {name for pool in validation.pools for name in pool.resources}
    holders_now = usage(stack, scheduling.pools, names, objects, validation.pools)
    busy = await measured(client, namespaces(holders_now))
    return merge(holders_now, busy, datetime.now(UTC))


def age(created: str, now: datetime) -> str:
    """Return the time since an object was created, in its largest unit; `?` if it is unknown."""
    try:
        seconds = (now - datetime.fromisoformat(created)).total_seconds()
    except (ValueError, TypeError):
        return "?"
    for length, unit in UNITS:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def amounts(by_resource: Mapping[str, int]) -> str:
    """Return amounts by resource as text, such as `8 nvidia.com/gpu`; `-` for none."""
    return (
        ", ".join(f"{number} {printable(name, LONGEST)}" for name, number in by_resource.items())
        or "-"
    )


def tables(stack_usage: Usage, now: datetime, *, single: bool = False) -> Iterator[Table]:
    """Yield the table of nodes and, if anybody holds GPUs, the table of namespaces.

    Nodes of one pool that nobody uses, and that advertise the same, share a row.

    Args:
        stack_usage: Who holds which GPUs.
        now: Time from which ages are counted.
        single: Whether each pod gets a line, however many there are.
    """
    single = single or sum(len(node.holders) for node in stack_usage.nodes) <= SINGLE
    nodes = _new_table("node", "pool", "GPUs", "free", "held by")
    rows = [
        _usage_row(group, now, single=single) for group in _group_equal_nodes(stack_usage.nodes)
    ]
    _fill(nodes, rows, None if single else MOST)
    yield nodes
    if stack_usage.namespaces:
        spaces = _new_table("namespace", "pods", "GPUs")
        _fill(
            spaces,
            [
                (
                    printable(of_namespace.namespace, LONGEST),
                    str(of_namespace.holders),
                    amounts(of_namespace.amounts),
                )
                for of_namespace in stack_usage.namespaces
            ],
            MOST,
        )
        yield spaces


def _new_table(*columns: str) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _fill(table: Table, rows: Sequence[Sequence[str]], most: int | None) -> None:
    """Add rows as plain text, so that no name is read as a style."""
    for row in rows[:most]:
        table.add_row(*map(Text, row))
    if most is not None and (more := len(rows) - most) > 0:
        table.add_row(f"and {more} more; --output json lists all")


def _group_equal_nodes(nodes: Iterable[NodeUsage]) -> list[list[NodeUsage]]:
    groups: dict[NodeUsage, list[NodeUsage]] = {}
    for node in nodes:
        same = node if node.holders else node.model_copy(update={"node": ""})
        groups.setdefault(same, []).append(node)
    return list(groups.values())


def _usage_row(group: Sequence[NodeUsage], now: datetime, *, single: bool) -> tuple[str, ...]:
    first = group[0]
    names = listed([node.node for node in group])
    gone = f"{sum(first.missing.values())} not advertised" if first.missing else ""
    notes = ", ".join(filter(None, (first.closed, gone)))
    return (
        f"{names} ({notes})" if notes else names,
        printable(first.pool, LONGEST),
        amounts(total(node.gpus for node in group)),
        _free_text(group),
        "\n".join(
            _line_per_holder(first.holders, now, first.gpus)
            if single
            else _line_per_namespace(first.holders, now)
        ),
    )


def _free_text(group: Iterable[NodeUsage]) -> str:
    """Return the free devices of some nodes; resources are named if there are several."""
    free = total(node.free for node in group)
    return amounts(free) if len(free) > 1 else str(sum(free.values()))


def _line_per_holder(
    holders: Iterable[Holder], now: datetime, advertised: Mapping[str, int] | None = None
) -> Iterator[str]:
    """Yield a line per holder.

    Args:
        holders: Pods and claims of one node.
        now: Time from which ages are counted.
        advertised: Devices that the node advertises, by resource. None: no holder is marked.
    """
    all_holders = list(holders)
    used = total(holder.amounts for holder in all_holders)
    for holder in all_holders:
        words = [amounts(holder.amounts), age(holder.created, now)]
        if any(advertised is not None and advertised.get(kind, 0) < used[kind]
               for kind in holder.amounts):  # fmt: skip
            words.append("on GPUs that are not advertised any more")
        if holder.claims:
            words.append(f"by {listed(holder.claims)}")
        if holder.kind == "ResourceClaim":
            users = f"shared by {listed(holder.pods)}" if holder.pods else "used by no pod"
            words.append(f"ResourceClaim, {users}")
        if holder.state not in ("Running", "allocated"):
            words.append(printable(holder.state, LONGEST))
        if holder.idle:
            words.append("idle")
        elif holder.utilization:
            words.append(f"{holder.utilization.percent:.3g} %")
        yield f"{_holder_name(holder)}: {', '.join(words)}"


def _line_per_namespace(holders: Iterable[Holder], now: datetime) -> Iterator[str]:
    """Yield a line per namespace; a holder that is alone in its namespace is named."""
    spaces: dict[str, list[Holder]] = {}
    for holder in holders:
        spaces.setdefault(holder.namespace, []).append(holder)
    for space, namespace_holders in spaces.items():
        if len(namespace_holders) == 1:
            yield from _line_per_holder(namespace_holders, now)
            continue
        oldest = min(
            (one_holder.created for one_holder in namespace_holders if one_holder.created),
            default="",
        )
        amount_text = amounts(total(one_holder.amounts for one_holder in namespace_holders))
        pods = counted(len(namespace_holders), "pod")
        text = f"{printable(space, LONGEST)}: {pods}, {amount_text}, oldest {age(oldest, now)}"
        idle = sum(one_holder.idle for one_holder in namespace_holders)
        yield f"{text}, {idle} idle" if idle else text


def _holder_name(holder: Holder) -> str:
    return f"{printable(holder.namespace, LONGEST)}/{printable(holder.name, LONGEST)}"


def last_lines(stack_usage: Usage) -> Iterator[str]:
    """Yield what could not be read, pods that wait or are idle, and the line with the totals."""
    for reason in stack_usage.uninspected:
        yield f"not inspected: {printable(reason)}; GPUs that these use are missing here"
    if stack_usage.waiting:
        yield f"waiting for GPUs: {_name_pods(stack_usage.waiting)}"
    yield from _utilization_lines(stack_usage)
    yield from _total_lines(stack_usage.nodes)


def _total_lines(nodes: Sequence[NodeUsage]) -> Iterator[str]:
    """Yield a line with the totals of each resource."""
    declared = total(amount for node in nodes for amount in (node.gpus, node.missing))
    free = total(node.free for node in nodes)
    closed = total(node.free for node in nodes if node.closed)
    holding = total(holder.amounts for node in nodes for holder in node.holders)
    gone: dict[str, list[tuple[str, int]]] = {}
    for node in nodes:
        for resource, number in node.missing.items():
            gone.setdefault(resource, []).append((node.node, number))
    for resource, number in declared.items():
        held_number, free_number = holding.get(resource, 0), free.get(resource, 0)
        name = printable(resource, LONGEST)
        text = f"who: {name}: {held_number} of {number} held, {free_number} free"
        if resource in closed:
            text += f", of them {closed[resource]} on nodes that take no pods"
        yield text + _missing_text(gone.get(resource, ()))
    if not declared:
        yield "who: no node advertises a GPU"


def _missing_text(gone: Sequence[tuple[str, int]]) -> str:
    """Return how many declared devices are not advertised, and where; empty if all are."""
    if not gone:
        return ""
    nodes_text = ", ".join(f"{printable(name, LONGEST)}: {number}" for name, number in gone[:NAMED])
    total_gone = sum(number for _, number in gone)
    return f", {total_gone} not advertised ({nodes_text}{and_more(len(gone), NAMED)})"


def _utilization_lines(stack_usage: Usage) -> Iterator[str]:
    """Yield the idle pods, what their values mean, and why values are missing."""
    pods = [holder for holder in holders(stack_usage) if holder.kind == "Pod"]
    if idle := [pod for pod in pods if pod.idle]:
        yield f"idle, 0 % used: {_name_pods(idle)}"
    if times := [pod.utilization.at for pod in pods if pod.utilization]:
        first = min(times).astimezone(UTC).isoformat(sep=" ", timespec="seconds")
        yield (
            f"utilization of {len(times)} of {counted(len(pods), 'pod')}, measured at {first} or "
            "later: values of a moment, unless the metrics adapter averages them"
        )
    if stack_usage.unmeasured:
        reasons = "; ".join(map(printable, stack_usage.unmeasured[:REASONS]))
        yield f"no utilization: {reasons}{and_more(len(stack_usage.unmeasured), REASONS)}"


def _name_pods(pods: Sequence[Holder]) -> str:
    names = [f"{_holder_name(pod)} ({amounts(pod.amounts)})" for pod in pods[:NAMED]]
    return f"{', '.join(names)}{and_more(len(pods), NAMED)}"


def show(stack_usage: Usage, now: datetime) -> None:
    """Print the tables and the last lines."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    for table in tables(stack_usage, now, single=verbose()):
        console.print(table)
    for line in last_lines(stack_usage):
        print(line)


def main() -> None:
    """Print who holds the GPUs; exit with 1 if the cluster can't be read."""
    stack = Stack.current()
    with apart() as output:
        reading(stack)
        desired = resolve(stack.cluster, stack.name)
        stack_usage = asyncio.run(
            observed(desired.context, stack.name, desired.scheduling, desired.validation)
        )
        if output:
            output.write(stack_usage.model_dump_json(by_alias=True, indent=2) + "\n")
        else:
            show(stack_usage, datetime.now(UTC))
