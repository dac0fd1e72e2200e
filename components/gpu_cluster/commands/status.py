"""Run `gpu-cluster status`: report drift, faults and due work without the engine.

It only reads, with the rights of a preview, so a schedule can run it. As data it prints the change
document of previews (docs/reference/change.md). Rules are not checked. The state of a local backend
names the hosts that an earlier run prepared.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_cluster.change.document import (
    ClusterChange,
    Document,
    Outcome,
    Problem,
    conclusion,
    stopping,
)
from gpu_cluster.change.lines import StackFile, located
from gpu_cluster.change.text import (
    health_text,
    maintenance_lines,
    only_uninspected,
    statement_lines,
    told_apart,
)
from gpu_cluster.commands.annotations import annotate as annotate_lines
from gpu_cluster.commands.backend import backend_folder, recorded_names
from gpu_cluster.commands.environment import local_backend, state_folder
from gpu_cluster.commands.failure import annotate
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.output import apart, say
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.reading import reading
from gpu_cluster.commands.stack import Stack
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.inspection.extent import Extent
from gpu_cluster.inspection.judgement import Inspection
from gpu_cluster.inspection.observe import documented, inspect
from gpu_cluster.ssh.key_files import KEY_FILE, PROBE_KEY_FILE, key_of_file
from gpu_rules.faults import ConfigError, FaultError
from gpu_rules.printable import counted, printable, printable_lines

NAME = "gpu-cluster"
"""Name of the component `GpuCluster` in the project's own program."""
FAULT, DRIFT, LOST = 1, 2, 3
"""Exit codes: a fault or an incomplete inspection; else lost GPUs (3); else drift (2)."""

EXPLAINED = 3
"""Maximum number of nodes with unusable GPUs whose causes are read."""


def key_of(hosts: Sequence[DesiredHost]) -> str | None:
    """Return the hosts' SSH key; empty if the probe's key is used, None without a key.

    A key that the stack file holds encrypted is not used: only the engine can decrypt it.

    Raises:
        FaultError: The key's file can't be read.
    """
    if key := key_of_file():
        return key
    return "" if os.environ.get(PROBE_KEY_FILE) or not hosts else None


def keyless(hosts: Sequence[DesiredHost], key: str | None) -> Iterator[str]:
    """Yield a note if the hosts were left out, because only the engine can decrypt their key.

    That is so after each deployment by README's steps, so it is no fault.
    """
    if hosts and key is None and Extent.wanted().has_hosts:
        yield (
            f"{counted(len(hosts), 'host')}: this command does not decrypt the stack's SSH key; "
            f"{KEY_FILE} or {PROBE_KEY_FILE} (`gpu-cluster probe-key`) names the file of a key"
        )


def with_xids(
    change: ClusterChange, hosts: Sequence[DesiredHost], key: str | None
) -> ClusterChange:
    """Return a change with the last Xid errors of the hosts whose GPUs pods can't use.

    The key of previews runs only the inspection's probe, so it reads no kernel log.
    """
    names = [each.node for each in change.unusable]
    if not key or not names or not Extent.wanted().has_hosts:
        return change
    # Only a status that logs in to hosts imports the SSH library.
    from gpu_cluster.validation import xid

    by_node = {host.node: host for host in hosts if not host.in_maintenance}
    found = asyncio.run(xid.lines(by_node, key, names))
    return change.model_copy(update={"notes": (*change.notes, *found.values())})


def with_causes(change: ClusterChange, context: str, namespaces: Sequence[str]) -> ClusterChange:
    """Return a change with the causes why pods can't use GPUs, as `gpu-cluster why` finds them.

    A DaemonSet of the platform that wants no pod on a node of the stack is a fault, because no run
    mends it. Other causes are notes. What can't be read is left out: the inspection says so.

    Args:
        namespaces: Namespaces of the platform.
    """
    names = [each.node for each in change.unusable][:EXPLAINED]
    if not names or not Extent.wanted().has_cluster:
        return change
    # Only a status of a cluster that lacks GPUs imports the causes.
    from gpu_cluster.kubernetes.api import connect
    from gpu_cluster.nodes.causes import read

    async def explain() -> tuple[list[str], list[str]]:
        faults, notes = [], []
        async with connect(context) as client:
            for name in names:
                unwanted = await read.unwanted_daemons(client, name, namespaces)
                causes = [] if unwanted else await read.lines_of_wanted(client, name, namespaces)
                faults += [f"node {name}: {line}" for line in unwanted]
                notes += [f"node {name}: {line}" for line in causes]
        return faults, notes

    try:
        faults, notes = asyncio.run(explain())
    except FaultError:
        return change
    return change.with_faults(faults).model_copy(update={"notes": (*change.notes, *notes)})


def incomplete(inspection: Inspection) -> Iterator[str]:
    """Yield a line for each part of the inspection that failed, with the reason."""
    if inspection.unreachable:
        yield inspection.unreachable
    yield from (
        f"host {name}: {facts.error}"
        for name, facts in inspection.difference.hosts.unreached.items()
    )


def names_in_state(stack: Stack) -> frozenset[str]:
    """Return the type and name (`type::name`) of each resource in the stack's state.

    The result is empty if the state is not in a local backend: only the engine can read others.
    """
    url = os.environ.get("PULUMI_BACKEND_URL") or local_backend(state_folder(stack))
    backend = backend_folder(url)
    return recorded_names(backend, stack.name) if backend else frozenset()


def document_of(stack: Stack) -> Document:
    """Inspect the stack and return its change document; a fault is a failed outcome."""
    file = StackFile.read(stack.file)
    try:
        # Nothing is installed, so whether a chart can be downloaded does not matter.
        desired = replace(resolve(stack.cluster, stack.name), chart=None)
        reading(stack)
        if cluster := embedded_cluster(stack):
            os.environ.update(cluster.variables())
        key = key_of(desired.hosts)
        recorded = names_in_state(stack) or None
        inspection, change = inspect(NAME, desired, key, stack.file.name, recorded=recorded)
    except (ConfigError, FaultError) as error:
        return failed(stack, file, *map(str, error.faults))
    if not inspection.unreachable:
        change = with_causes(change, desired.context, sorted(desired.operands.spaces))
    change = with_xids(change, desired.hosts, key)
    document = with_uninspected(documented(change, stack.name, file), keyless(desired.hosts, key))
    return judged(document, [*incomplete(inspection)])


def failed(stack: Stack, file: StackFile, *texts: str) -> Document:
    """Return the change document of a stack whose inspection could not start."""
    faults = tuple(Problem(text=printable_lines(text)) for text in texts)
    return judged(located(Document(stack=stack.name, outcome=Outcome.FAILED, faults=faults), file))


def judged(document: Document, missing: list[str] | None = None) -> Document:
    """Return the change document of a status; failed after a fault or omitted inspection.

    Args:
        document: What the inspection found.
        missing: What should have been inspected and was not, with the reason.
    """
    problems = stopping(document.clusters, document.faults)
    if missing and problems:
        document = with_uninspected(document, missing)
    lacking = f"not inspected: {missing[0]}" if missing and not problems else ""
    is_changed = document.outcome is Outcome.CHANGED
    outcome, cause = conclusion(problems, is_changed=is_changed, cause=lacking)
    update = {"command": "status", "outcome": outcome, "cause": printable(cause)}
    return document.model_copy(update=update)


def with_uninspected(document: Document, missing: Iterable[str]) -> Document:
    """Return a document whose first cluster also names what should have been inspected."""
    if not document.clusters:
        return document
    first, *other_clusters = document.clusters
    missing_parts = tuple(dict.fromkeys((*first.uninspected, *map(printable, missing))))
    clusters = (first.model_copy(update={"uninspected": missing_parts}), *other_clusters)
    return document.model_copy(update={"clusters": clusters})


def exit_code(document: Document) -> int:
    """Return 1 on a fault or an incomplete inspection, else 3 on lost GPUs, 2 on drift, or 0."""
    if document.outcome is Outcome.FAILED:
        return FAULT
    if any(cluster.lost for cluster in document.clusters):
        return LOST
    return DRIFT if any(cluster.drift for cluster in document.clusters) else 0


def lines(document: Document) -> Iterator[str]:
    """Yield the lines to print about a change document; the first and the last count the GPUs."""
    if text := health_text(document.clusters):
        yield text
    for cluster in document.clusters:
        yield from filter(None, [printable(cluster.unknown)])
        yield from map(printable, cluster.notes)
        yield from statement_lines("drift", cluster.drift)
        yield from statement_lines("due", cluster.due)
        yield from statement_lines("change", told_apart(cluster))
        yield from (f"warning: {printable_lines(problem.text)}" for problem in cluster.warnings)
        yield from (
            f"not inspected: {printable_lines(reason)}" for reason in only_uninspected(cluster)
        )
        yield from maintenance_lines(cluster)
        yield from (f"fault: {printable_lines(problem.text)}" for problem in cluster.faults)
    yield from (f"fault: {printable_lines(problem.text)}" for problem in document.faults)
    if document.cause.startswith("not inspected: "):
        yield f"fault: {document.cause}"
    yield last_line(document)


def last_line(document: Document) -> str:
    """Return the line that counts the findings of each kind."""
    all_clusters = document.clusters
    faults = len(document.faults) + sum(len(cluster.faults) for cluster in all_clusters)
    lost = sum(cluster.lost for cluster in all_clusters)
    counts = [
        health_text(all_clusters)
        or (f"{counted(document.gpus.after, 'GPU')} declared" if all_clusters else ""),
        f"{lost} lost since the last run" if lost else "",
        counted(faults, "fault") if faults else "",
        "incomplete" if document.cause and not faults else "",
    ]
    for kind, singular in (("drift", "drift"), ("due", "due"), ("changes", "change")):
        number = sum(len(getattr(cluster, kind)) for cluster in all_clusters)
        counts.append(f"{number} {singular if number == 1 else kind}" if number else "")
    if not document.cause and any(cluster.uninspected for cluster in all_clusters):
        counts.append("not all inspected")
    is_well = not lost and not any(cluster.is_changed for cluster in all_clusters)
    if not faults and not document.cause and is_well:
        counts.append("nothing to do")
    return f"status: stack {printable(document.stack)}: {', '.join(filter(None, counts))}"


def main() -> None:
    """Print the stack's status; exit with 1 on faults, 3 on lost GPUs, 2 on drift, else 0."""
    stack = Stack.named()
    with apart() as output:
        document = document_of(stack)
        for line in annotate_lines(document, os.environ, ROOT):
            print(line, file=sys.stderr, flush=True)
        for line in lines(document):
            say(line)
        if output:
            output.write(document.write())
        code = exit_code(document)
        if code:
            annotate(document.cause or last_line(document))
        sys.exit(code)
