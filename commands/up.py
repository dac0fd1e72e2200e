"""`make up`: brings the stack up, shows its nodes, and says which GPUs ran a kernel."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from pulumi import automation
from rich.console import Console
from rich.table import Table

from commands.engine import POLICIES, color, say, select, stale
from commands.stack import Stack
from components.api import Json
from components.inspection.cluster import nodes_by_name
from components.nodes.pools import labels


def node_table(stack: Stack, nodes: list[dict[str, Any]], live: dict[str, Json]) -> Table:
    """One row per node, labels and taints as the API server has them; what is simulated says so.

    Args:
        stack: the stack.
        nodes: its output ``nodes``.
        live: Node objects by name.
    """
    table = Table(title=f"stack {stack.name}")
    for column in ("node", "pool", "GPUs", "labels", "taints"):
        table.add_column(column)
    declared = {pool.name: labels(stack.cluster, pool) for pool in stack.cluster.pools}
    for node in nodes:
        found = live[node["name"]]
        present = found["metadata"].get("labels", {})
        table.add_row(
            node["name"],
            node["pool"],
            proof(node),
            "\n".join(f"{key}={present[key]}" for key in declared[node["pool"]] if key in present),
            "\n".join(
                f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
                for taint in found["spec"].get("taints") or []
            ),
        )
    return table


def proof(node: dict[str, Any]) -> str:
    """What a node offers and what ran there, and since when."""
    ran = "simulated" if node["simulated"] else "computed"
    lines = [f"{node['declared']} declared"]
    lines += [f"{count} offered ({name})" for name, count in node["offered"].items()]
    lines.append(f"{node[ran]} {ran}")
    if node["deferred"]:
        lines.append(f"{node['deferred']} deferred")
    return "\n".join([*lines, f"since {node['since']}"] if node["since"] else lines)


def summary_of(gpus: dict[str, int]) -> str:
    """How many GPUs ran a kernel, in the words of the last line."""
    ran = "simulated" if gpus["simulated"] else "computed"
    text = f"{gpus[ran]} of {gpus['declared']} GPUs {ran}"
    if gpus["simulated"] and gpus["computed"]:
        text += f", {gpus['computed']} computed"
    return f"{text}, {gpus['deferred']} deferred" if gpus["deferred"] else text


def changed(summary: automation.UpdateSummary) -> int:
    """Resources that the engine created, updated, replaced or deleted."""
    changes = summary.resource_changes or {}
    return sum(count for kind, count in changes.items() if kind != "same")


def run(stack: Stack) -> None:
    """Runs the command on a stack."""
    started = time.monotonic()
    selected = select(stack)
    stack.start()
    outdated = stale(selected, stack)
    if not outdated:
        stack.remember()
    try:
        result = selected.up(
            on_output=say,
            on_error=say,
            color=color(),
            policy_packs=[POLICIES],
            refresh=outdated,
        )
    except automation.CommandError:
        print(f"up: failed after {time.monotonic() - started:.0f} s; the cause stands above")
        sys.exit(1)
    stack.remember()
    outputs = {name: output.value for name, output in result.outputs.items()}
    live = asyncio.run(nodes_by_name(stack.cluster.kubernetes.context))
    table = node_table(stack, outputs["nodes"], live)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    gpus = outputs["gpus"]
    print(
        f"up: {summary_of(gpus)}, "
        f"{changed(result.summary)} resources changed, {time.monotonic() - started:.0f} s"
    )


def main() -> None:
    """Runs the command; exit code 1 when the stack did not come up."""
    stack = Stack.current()
    with stack.unsalted():
        run(stack)


if __name__ == "__main__":
    main()
