"""`make up`: brings the stack up, shows its nodes, and says what was validated."""

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
    for column in ("node", "pool", "GPUs declared", "GPUs validated", "labels", "taints"):
        table.add_column(column)
    declared = {pool.name: labels(stack.cluster, pool) for pool in stack.cluster.pools}
    for node in nodes:
        found = live[node["name"]]
        present = found["metadata"].get("labels", {})
        table.add_row(
            node["name"],
            node["pool"],
            str(node["declared"]),
            f"{node['validated']}{' (simulated)' if node['simulated'] else ''}",
            "\n".join(f"{key}={present[key]}" for key in declared[node["pool"]] if key in present),
            "\n".join(
                f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
                for taint in found["spec"].get("taints") or []
            ),
        )
    return table


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
    if gpus["simulated"]:
        print(f"{gpus['simulated']} of these GPUs are simulated: no kernel ran on a GPU.")
    print(
        f"up: {gpus['validated']} of {gpus['declared']} GPUs validated, "
        f"{changed(result.summary)} resources changed, {time.monotonic() - started:.0f} s"
    )


def main() -> None:
    """Runs the command; exit code 1 when the stack did not come up."""
    stack = Stack.current()
    with stack.unsalted():
        run(stack)


if __name__ == "__main__":
    main()
