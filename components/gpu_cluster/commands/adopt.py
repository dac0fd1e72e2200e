"""Run `gpu-cluster adopt`: describe a running cluster in the stack file, and preview it.

The program does not change the cluster. If no stack file exists, the user names the context of the
kubeconfig, and the file is written. Otherwise the sections that differ from the cluster are written
into it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_cluster.commands import preview
from gpu_cluster.commands.adoption.propose import Proposal, propose
from gpu_cluster.commands.adoption.read import read_cluster
from gpu_cluster.commands.adoption.stack_text import new_text, settings_of, with_sections
from gpu_cluster.commands.begun_file import has_edited_file
from gpu_cluster.commands.environment import variables
from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.stack import Stack
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.settings.nodes.node_range import written_out
from gpu_rules.faults import ConfigError, Fault, FaultError, InputError
from gpu_rules.printable import printable

Json = dict[str, Any]
OF_HOSTS = ("driver", "runtime")


def differing(declared: Mapping[str, Any], proposal: Proposal) -> Json:
    """Return the sections of a proposal that differ from those of a stack file.

    A proposed pool keeps the name and the other settings of the declared pool with the same nodes,
    and all settings if the stack already manages the nodes. Declared settings of hosts are kept.

    Args:
        declared: Content of `gpu-cluster:cluster` in the stack file.
        proposal: Settings that describe the cluster.
    """
    sections: Json = {}
    for key, value in proposal.settings.items():
        now = declared.get(key)
        if key == "pools" and isinstance(now, list):
            value = [_keep_declared_pool(pool, now, proposal.ours) for pool in value]
        elif key in OF_HOSTS and isinstance(now, Mapping):
            value = {**value, **now}
        elif key != "adopted" and isinstance(value, Mapping) and isinstance(now, Mapping):
            value = {**now, **value}
        if now != value:
            sections[key] = value
    return sections


def _keep_declared_pool(
    proposed: Mapping[str, Any], declared: Sequence[Any], ours: frozenset[str]
) -> Json:
    nodes = _pool_nodes(proposed)
    for pool in declared:
        if isinstance(pool, Mapping) and nodes and _pool_nodes(pool) == nodes:
            if nodes <= ours:
                return dict(pool)
            same = {"name": pool["name"], "nodes": pool["nodes"]}
            return {**pool, **proposed, **same}
    return dict(proposed)


def _pool_nodes(pool: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(written_out(tuple(pool.get("nodes") or ())))


async def proposal_of(context: str) -> Proposal:
    """Read a cluster and return settings that take it over without changes.

    Raises:
        ClusterError: The cluster can't be read.
    """
    async with connect(context) as client:
        return propose(await read_cluster(client), context)


def write(stack: Stack, proposal: Proposal) -> list[str]:
    """Write a proposal into the stack file; return the names of the sections that changed.

    The file is replaced only if the new content loads without faults.

    Raises:
        ConfigError: The new content has faults; the file is not changed.
        InputError: The stack file has a form in which no section can be written.
    """
    file = stack.file
    before = file.read_text(encoding="utf-8") if has_edited_file(stack) else None
    if before is None:
        changed = dict(proposal.settings)
        after = new_text(proposal.settings)
    else:
        changed = differing(settings_of(before), proposal)
        after = with_sections(before, changed)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".adopt-") as folder:
        draft = Path(folder) / file.name
        draft.write_text(after, encoding="utf-8")
        load_stack_file(draft)
        draft.replace(file)
    return [*changed]


def context_of(stack: Stack, context: str) -> str:
    """Return the context of the stack file; the named one if there is no edited stack file.

    Raises:
        FaultError: There is neither an edited stack file nor a name.
    """
    if has_edited_file(stack):
        return stack.cluster.kubernetes.context
    if context:
        return context
    raise FaultError(
        Fault(
            stack.file.name,
            "no stack file that somebody edited, and no option --context",
            "a stack file, or the context of the cluster to read",
            f"`gpu-cluster adopt --stack {stack.name} --context NAME` with a context "
            "of your kubeconfig",
        )
    )


def run(name: str, context: str, json_output: Answer) -> None:
    """Read the cluster, write the stack file and preview it.

    Args:
        context: Context of the cluster, if there is no stack file.
        json_output: The JSON document of the command; gets ``written``, the sections that changed.

    Raises:
        FaultError: The cluster can't be read, or its software can't be taken over.
    """
    stack = Stack(name)
    context = context_of(stack, context)
    if has_edited_file(stack):
        os.environ.update(variables(stack))
    proposal = asyncio.run(proposal_of(context))
    for note in proposal.notes:
        print(printable(f"note: {note}"))
    if proposal.refused:
        raise FaultError(*proposal.refused)
    json_output["written"] = written = write(stack, proposal)
    print(f"adopt: {stack.file.name}: {', '.join(written) or 'nothing'} written; now the preview")
    # A stack object reads its settings only once, so create another object for the changed file.
    adopted = Stack(name)
    with adopted.unsalted():
        preview.show(preview.run(adopted))
    print(f"next: gpu-cluster up --stack {name}, which adopts the cluster without restarting pods")


def main(*, context: str = "") -> None:
    """Take over the cluster of a stack; exit with 1 if that fails.

    Args:
        context: Context of the cluster, if there is no stack file.
    """
    with answering("adopt") as json_output:
        try:
            run(Stack.named().name, context, json_output)
        except ConfigError as error:
            sys.exit(
                f"adopt: the stack file was left as it was, since the settings that would "
                f"describe the cluster have faults.\n{error}"
            )
        except (FaultError, InputError) as error:
            sys.exit(f"adopt: nothing was changed.\n{error}")
