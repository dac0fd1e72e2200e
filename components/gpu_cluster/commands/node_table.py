"""Table of a stack's nodes: a row for each node or, with more than 20 nodes, for each pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

from rich.table import Table

from gpu_cluster.commands.stack import Stack
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import Json
from gpu_rules.kube.taints import NodeTaint

# Maximum number of nodes with a row each.
MOST = 20

# Width of the table in characters if the output is not a terminal.
WIDTH = 140

Row = dict[str, Any]


def table(stack: Stack, nodes: list[Row], live: dict[str, Json]) -> Table:
    """Return the table of nodes; labels and taints are those that the API server reports.

    Simulated GPUs are marked as simulated.

    Args:
        nodes: The stack's output ``nodes``.
        live: The cluster's Node objects by name.
    """
    pools = resolve(stack.cluster, stack.name).scheduling.pools
    declared = {pool.pool: pool.labels for pool in pools}
    few = len(nodes) <= MOST
    node_table = Table(title=f"stack {stack.name}")
    for column in ("node" if few else "nodes", "pool", "GPUs", "labels", "taints"):
        node_table.add_column(column)
    for group in [[node] for node in nodes] if few else _group_nodes(nodes):
        members = [live[node["name"]] for node in group]
        node_table.add_row(
            group[0]["name"] if few or _lacks_gpus(group[0]) else str(len(group)),
            group[0]["pool"],
            proof(group),
            _merge_lines([_declared_labels(node, declared[group[0]["pool"]]) for node in members]),
            _merge_lines([_taint_texts(node) for node in members]),
        )
    for name, pool in islice(stack.pools_in_maintenance.items(), MOST):
        missing = "" if name in live else ", not in the cluster"
        node_table.add_row(name, pool, f"in maintenance{missing}", "", "")
    return node_table


def _group_nodes(nodes: list[Row]) -> list[list[Row]]:
    """Group nodes for the table's rows.

    Nodes whose GPUs are not all validated get a group each, at most twenty; the other nodes are
    grouped by pool.
    """
    alone = [node for node in nodes if _lacks_gpus(node)][:MOST]
    names = {node["name"] for node in alone}
    pools: dict[str, list[Row]] = {}
    for node in nodes:
        if node["name"] not in names:
            pools.setdefault(node["pool"], []).append(node)
    return [*pools.values(), *([node] for node in alone)]


def proof(group: list[Row]) -> str:
    """Return how many GPUs of a group of nodes are declared, allocatable, validated and deferred.

    For a single node the text includes since when its GPUs have been validated.
    """
    ran = "simulated" if group[0]["simulated"] else "computed"
    lines = [f"{_sum_of(group, 'declared')} declared"]
    for name in dict.fromkeys(name for node in group for name in node["offered"]):
        count = sum(node["offered"].get(name, 0) for node in group)
        lines.append(f"{count} offered ({name})")
    lines.append(f"{_sum_of(group, ran)} {ran}")
    if deferred := _sum_of(group, "deferred"):
        holders_text = group[0].get("held") if len(group) == 1 else ""
        lines.append(f"{deferred} deferred{f', held by {holders_text}' if holders_text else ''}")
    if len(group) == 1 and group[0]["since"]:
        lines.append(f"since {group[0]['since']}")
    return "\n".join(lines)


def _sum_of(group: list[Row], key: str) -> int:
    return sum(int(node[key]) for node in group)


def _lacks_gpus(node: Row) -> bool:
    return bool(node["simulated"] + node["computed"] != node["declared"])


def _declared_labels(node: Json, declared: Mapping[str, str]) -> list[str]:
    present = node["metadata"].get("labels", {})
    return [f"{key}={present[key]}" for key in declared if key in present]


def _taint_texts(node: Json) -> list[str]:
    taints = node["spec"].get("taints") or []
    return [str(NodeTaint.of(taint)) for taint in taints]


def _merge_lines(texts: list[list[str]]) -> str:
    """Merge nodes' lines for one table row; add a count to lines that not all nodes have."""
    counts = Counter(line for lines in texts for line in lines)
    ordered = dict.fromkeys(line for lines in texts for line in lines)
    marks = {
        line: "" if counts[line] == len(texts) else f" (on {counts[line]})" for line in ordered
    }
    lines = [f"{line}{mark}" for line, mark in marks.items()]
    more = len(lines) - MOST
    return "\n".join([*lines[:MOST], f"and {more} more"] if more > 0 else lines)
