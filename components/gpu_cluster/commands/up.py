"""Run `gpu-cluster up`: create or update the stack, show its nodes and the validated GPUs."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from pulumi import automation
from rich.console import Console

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.change.document import ClusterChange, Numbers
from gpu_cluster.change.text import health_text, move_text
from gpu_cluster.commands.contexts import require_context, require_own_state
from gpu_cluster.commands.engine import move_of, select, settle
from gpu_cluster.commands.environment import USER_PATH
from gpu_cluster.commands.failure import stop, summary
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.node_table import WIDTH, table
from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.packs import RULES, place_pack
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state import export_state
from gpu_cluster.commands.state_copies import keep_copy
from gpu_cluster.commands.tools import TOOLS, ensure
from gpu_cluster.commands.waiting import for_step
from gpu_cluster.commands.watched import Failed, watched
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.inspection.document import health_fields
from gpu_cluster.inspection.observed_cluster import nodes_by_name, observe_health
from gpu_cluster.kubernetes.api import ClusterError, Json, connect
from gpu_cluster.nodes import record
from gpu_cluster.nodes.difference import declared_resting
from gpu_cluster.release.clear import await_deletions
from gpu_cluster.validation.health import NodeHealth
from gpu_cluster.validation.measurement import Outcome
from gpu_rules.printable import printable_lines, shortened

MOST_DEFERRED = 10
"""Maximum number of nodes with deferred GPUs that have a line each."""
SLOWEST = 5
"""Maximum number of nodes in the line of a test, the slowest first."""


def summary_of(gpus: dict[str, int], resting: int = 0) -> str:
    """Return a summary: numbers of validated and deferred GPUs, and of nodes in maintenance.

    Args:
        gpus: The stack's output ``gpus``: numbers of GPUs by state.
        resting: Number of nodes in maintenance.
    """
    ran = "simulated" if gpus["simulated"] else "computed"
    text = f"{gpus[ran]} of {gpus['declared']} GPUs {ran}"
    if gpus["simulated"] and gpus["computed"]:
        text += f", {gpus['computed']} computed"
    if gpus["deferred"]:
        text += f", {gpus['deferred']} deferred"
    return f"{text}, {resting} node{'s' * (resting > 1)} in maintenance" if resting else text


def measured(tests: list[dict[str, Any]]) -> list[str]:
    """Return a line for each test with its measurements, the slowest nodes first.

    Nodes on which the test did not run are counted too.
    """
    by_test: dict[str, list[Outcome]] = {}
    for document in tests:
        outcome = Outcome(**document)
        by_test.setdefault(outcome.test, []).append(outcome)
    lines = []
    for test, outcomes in by_test.items():
        ran = [outcome for outcome in outcomes if not outcome.skipped]
        words = "simulated" if any(outcome.simulated for outcome in ran) else "ran"
        slowest = shortened([*map(str, outcomes)], SLOWEST)
        lines.append(f"test {test}: {words} on {len(ran)} of {len(outcomes)} nodes: {slowest}")
    return lines


def deferred(stack: Stack, nodes: list[dict[str, Any]]) -> list[str]:
    """Return a line for each node with deferred GPUs: which pods use the GPUs, and what to do."""
    option = stack_option(stack.name)
    waiting = [node for node in nodes if node["deferred"] and node.get("held")]
    lines = [
        f"deferred: node {node['name']}: {node['deferred']} "
        f"GPU{'s' * (node['deferred'] > 1)}, held by {node['held']}; when these have ended: "
        f"gpu-cluster validate{option} --nodes {node['name']}"
        for node in waiting[:MOST_DEFERRED]
    ]
    more = len(waiting) - MOST_DEFERRED
    return [*lines, f"deferred: {more} more nodes"] if more > 0 else lines


def shown_next(stack: Stack, lines: list[str]) -> list[str]:
    """Return commands for the user to run next; they work in a shell without `gpu-cluster env`."""
    option = stack_option(stack.name)
    # The environment of a clone need not be on PATH.
    program = shlex.quote(os.path.relpath(Path(sys.prefix, "bin", "gpu-cluster")))
    command = "gpu-cluster" if shutil.which("gpu-cluster", path=USER_PATH) else program
    command_lines = [f'(eval "$({command} env{option})" && {line})' for line in lines]
    if shutil.which("kubectl"):
        return command_lines
    return [line for line in command_lines if "&& kubectl " not in line]


def with_uuids(nodes: list[dict[str, Any]], live: dict[str, Json]) -> list[dict[str, Any]]:
    """Return the output ``nodes`` with the UUIDs of the GPUs that ran a kernel, for the document.

    Args:
        nodes: The stack's output ``nodes``.
        live: The cluster's Node objects by name.
    """
    records = {
        name: record.decode(node) or record.ValidationRecord() for name, node in live.items()
    }
    return [{**node, "devices": records[node["name"]].devices} for node in nodes]


def changed(summary: automation.UpdateSummary) -> int:
    """Return the number of resources that the engine created, updated, replaced or deleted."""
    changes = summary.resource_changes or {}
    return sum(count for kind, count in changes.items() if kind != "same")


def run(stack: Stack, json_output: Answer, name: str = "up") -> None:
    """Create or update the stack; print its nodes, test results and commands to run next.

    Args:
        json_output: The JSON document of the command; gets ``outputs`` and ``changed``.
        name: Name of the command in the last line.
    """
    require_context(stack)
    require_own_state(stack)
    ensure_tools(stack)
    selected = select(stack)
    start_cluster(stack)
    cluster = embedded_cluster(stack)
    if cluster:
        cluster.note_absent_machines()
    exported = export_state(selected)
    keep_copy(stack, exported)
    if move := move_of(stack, exported):
        print(f"{move_text(move)}.", flush=True)
    outdated = settle(selected, stack)
    if cluster and not outdated:
        cluster.remember()
    started = time.monotonic()
    try:
        if outdated:
            asyncio.run(await_deletions(stack.cluster.kubernetes.context))
        result = watched(
            selected.up, json_output, policy_packs=[place_pack(RULES)], refresh=outdated
        )
    except (Failed, ClusterError) as error:
        cause = str(error)
        if isinstance(error, ClusterError):
            cause_lines = printable_lines(cause)
            print(cause_lines)
            cause = summary([cause_lines])
        stop(f"{name}: failed after {time.monotonic() - started:.0f} s: {cause}")
    if cluster:
        cluster.remember()
    if outdated:
        settle(selected, stack)
    outputs = {name: output.value for name, output in result.outputs.items()}
    live = asyncio.run(nodes_by_name(stack.cluster.kubernetes.context))
    outputs["nodes"] = with_uuids(outputs["nodes"], live)
    json_output |= {"outputs": outputs, "changed": changed(result.summary)}
    Console(width=None if sys.stdout.isatty() else WIDTH).print(
        table(stack, outputs["nodes"], live)
    )
    for line in measured(outputs["tests"]):
        print(line)
    for line in deferred(stack, outputs["nodes"]):
        print(line)
    for line in shown_next(stack, outputs["next"]):
        print(f"next: {line}")
    if text := usable_now(stack):
        print(f"{text}.")
    print(
        f"{name}: {summary_of(outputs['gpus'], len(outputs['maintenance']))}, "
        f"{json_output['changed']} resources changed, {time.monotonic() - started:.0f} s"
    )


def usable_now(stack: Stack) -> str:
    """Return the sentence about the stack's GPUs after a run; empty if it has none."""
    desired = resolve(stack.cluster, stack.name)
    if not desired.has_validation:
        return ""

    async def read() -> tuple[NodeHealth, ...]:
        async with connect(desired.context) as client:
            return await observe_health(client, desired.validation.pools)

    fields = health_fields(asyncio.run(read()))
    resting = declared_resting(desired.scheduling.pools)
    change = ClusterChange(
        name=stack.name,
        maintenance=desired.maintenance,
        resting=Numbers(before=resting, after=resting),
        **fields,
    )
    return health_text([change])


def ensure_tools(stack: Stack) -> None:
    """Build or download missing tools; print the duration if it is a second or more."""
    started = time.monotonic()
    cluster = embedded_cluster(stack)
    ensure(*TOOLS, *(cluster.tools if cluster else ()))
    _report_duration("toolchain", started)


def start_cluster(stack: Stack) -> None:
    """Start the missing parts of the embedded cluster; print the duration if it took a second."""
    started = time.monotonic()
    if (cluster := embedded_cluster(stack)) is None:
        return
    with for_step("the embedded cluster and its hosts"):
        cluster.start()
    _report_duration("embedded cluster", started)


def _report_duration(subject: str, started: float) -> None:
    if (seconds := time.monotonic() - started) >= 1:
        print(f"{subject}: ready, {seconds:.0f} s", flush=True)


def main() -> None:
    """Bring up the stack that `STACK` names; exit with 1 if that fails."""
    stack = Stack.current()
    with answering("up") as json_output, stack.held("gpu-cluster up"), stack.unsalted():
        run(stack, json_output)
