"""Print what the inspection found; stop a run that would fail."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pulumi

from gpu_cluster.change.document import ClusterChange, stopping
from gpu_cluster.change.file import Inspected, write
from gpu_cluster.change.lines import StackFile
from gpu_cluster.change.text import lines
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.observed.table import table
from gpu_cluster.inspection.judgement import Inspection
from gpu_cluster.inspection.observe import documented


def tell(change: ClusterChange, stack: str, source: str) -> None:
    """Log what the run would change, write the change document, and stop a run that would fail.

    This is the gate of a run: nothing of the cluster is declared before it.

    The document is a JSON file with all changes that the run would make. It is written to the path
    in the environment variable that `gpu_cluster.change.file.VARIABLE` names, if there is one.

    Args:
        change: What the run would change.
        source: Name of the settings in messages. Empty: the stack file.

    Raises:
        RunError: The inspection found a fault that would stop the run.
    """
    document = documented(change, stack, StackFile.read(Path(source or f"Pulumi.{stack}.yaml")))
    problems = stopping([change])
    if change.is_changed or not problems:
        pulumi.log.info("\n".join(lines(change)))
    write(document, change.name)
    if problems:
        raise Inspected("\n".join(problem.text for problem in problems))


def show_hosts(
    hosts: Sequence[DesiredHost],
    inspection: Inspection,
    origins: Mapping[str, Mapping[str, str]],
) -> None:
    """Log a table of the new hosts, with VERBOSE=1 of all hosts that were inspected."""
    new = {finding.name for finding in inspection.difference.hosts.findings if finding.first}
    verbose = os.environ.get("VERBOSE") == "1"
    selected = {name: facts for name, facts in inspection.hosts.items() if name in new or verbose}
    if text := table(hosts, selected, origins):
        pulumi.log.info(f"hosts\n{text}")
    for warning in inspection.warnings:
        pulumi.log.warn(warning)
