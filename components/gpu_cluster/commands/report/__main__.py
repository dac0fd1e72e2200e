"""Run `gpu-cluster report`: write the report of a stack, one HTML file, and change nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from datetime import date
from pathlib import Path
from typing import Any

from pulumi import automation
from pydantic import TypeAdapter, ValidationError

from gpu_cluster.base.explain import first_error
from gpu_cluster.change.document import Document
from gpu_cluster.change.file import replace_text
from gpu_cluster.commands.engine import select
from gpu_cluster.commands.files import new_file
from gpu_cluster.commands.output import answering
from gpu_cluster.commands.preview import previewed
from gpu_cluster.commands.report.gpu_map import pools_of
from gpu_cluster.commands.report.page import Report, page
from gpu_cluster.commands.report.software import software_of
from gpu_cluster.commands.stack import Stack
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.inspection.observed_cluster import gpu_nodes
from gpu_cluster.kubernetes.api import ClusterError, Json
from gpu_cluster.validation.measurement import Outcome
from gpu_cluster.validation.tests import KEPT
from gpu_rules.faults import Fault, PartError
from gpu_rules.printable import printable

FILE = "report-{stack}.html"
"""Name of the file with the page, if the user names no other."""


def figures_of(tests: Any) -> tuple[Outcome, ...]:
    """Return the results of user-defined tests in the stack's output `tests`.

    Raises:
        ValueError: The output is not a list of test results.
    """
    try:
        found = TypeAdapter(list[Outcome]).validate_python(tests)
    except ValidationError as error:
        where, wrong = first_error(error)
        raise ValueError(f"{'.'.join(filter(None, ('tests', where)))}: {wrong}") from None
    return tuple(found[:KEPT])


def _nodes(context: str, pools: Iterable[PoolValidation]) -> tuple[list[Json], list[str]]:
    try:
        return asyncio.run(gpu_nodes(context, [pool.resources for pool in pools])), []
    except ClusterError as error:
        return [], [f"The cluster was not inspected: {error}"]


def _figures(stack: Stack) -> tuple[tuple[Outcome, ...], list[str]]:
    try:
        with stack.unsalted():
            found = select(stack).outputs().get("tests")
        return (figures_of(found.value) if found else ()), []
    except (automation.CommandError, ValueError) as error:
        return (), [f"The results of tests were not read: {printable(str(error))}"]


def made(stack: Stack, document: Document, today: date) -> Report:
    """Return the report of a stack: the cluster is read, nothing is changed.

    Args:
        stack: The stack; its file has no faults.
        document: What a run would change.
        today: Current date, for ends of support.
    """
    desired = resolve(stack.cluster, stack.name)
    nodes, unread = _nodes(desired.context, desired.validation.pools)
    figures, unknown = _figures(stack)
    resting = {name: pool for name, pool in stack.pools_in_maintenance.items() if pool}
    return Report(
        stack=stack.name,
        document=document,
        pools=pools_of(desired.scheduling, desired.validation, nodes, resting),
        software=software_of(nodes, desired.nodes.driver_versions, today),
        figures=figures,
        day=today,
        unknown=(*unread, *unknown),
    )


def _document(stack: Stack, change: str) -> Document:
    """Return the change document of a file, or of a preview if no file is named.

    Raises:
        OSError: The file can't be read.
        ValueError: The file is not a change document, or is about another stack.
    """
    if not change:
        return previewed(stack)
    document = Document.read(Path(change).read_bytes())
    if document.stack != stack.name:
        raise PartError(f"{change}: a document about stack {document.stack}")
    return document


def main(*, file: str = "", change: str = "") -> None:
    """Write the report, also if the preview failed; exit with 1 if that is impossible.

    Args:
        file: File of the page; empty: `report-STACK.html`.
        change: File of a change document, in place of a preview.
    """
    stack = Stack.current()
    path = new_file("--file", file or FILE.format(stack=stack.name))
    with answering("report") as answer, redirect_stdout(sys.stderr):
        try:
            text = page(made(stack, _document(stack, change), date.today()))
            replace_text(path, text)
        except (OSError, ValueError) as error:
            found = printable(str(error))
            cure = "name a change document with --change, or none; name a file with --file"
            sys.exit(str(Fault("report", found, "a change document and a file to write", cure)))
        answer["file"] = str(path)
    if os.environ.get("JSON") != "1":
        print(f"report: {path}, {len(text.encode()) // 1024 + 1} KiB")
