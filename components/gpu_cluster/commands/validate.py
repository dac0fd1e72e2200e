"""Program of `make validate NODES=gpu-[1-2]`: bring the stack up and validate nodes again.

Without NODES all nodes are validated. `make validate TESTS=all-reduce` runs user-defined tests on
the named nodes, or on all of them, and validates only nodes that are named. `JUNIT=file` and
`CTRF=file` write the results as reports that CI systems read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from gpu_cluster.change.file import replace_text
from gpu_cluster.commands import up
from gpu_cluster.commands.files import new_file
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.validation_reports import Case, cases, ctrf, failed, junit
from gpu_cluster.commands.watched import Answer, answering
from gpu_cluster.settings.nodes.node_range import expand
from gpu_cluster.settings.nodes.pool import Pool, gpu_pools
from gpu_cluster.validation.selection import ALL, ASKED, TESTS
from gpu_rules.faults import FaultError

REPORTS = {"JUNIT": junit, "CTRF": ctrf}
"""The forms of reports, by the environment variable that names the report's file."""


def chosen(text: str, pools: Sequence[Pool], maintenance: Collection[str]) -> str:
    """Expand a comma-separated list of node names and ranges to node names.

    Args:
        text: Names and ranges such as ``gpu-[1-2]``, separated by commas; an empty text means all
            nodes.
        pools: The pools with GPUs.
        maintenance: Names of the nodes in maintenance.

    Raises:
        ValueError: A name belongs to a node in maintenance, or to no pool with GPUs. The second is
            not checked if a pool selects its nodes by labels.
    """
    if not text.strip():
        return ALL
    names = [name for part in text.split(",") for name in expand(part.strip())]
    known = {name for pool in pools for name in pool.node_names}
    if resting := [name for name in names if name in maintenance]:
        raise ValueError(
            f"NODES: found {', '.join(resting[:5])}, in maintenance; wanted: nodes in use; "
            "cure: remove them from `maintenance` of the stack, or from NODES"
        )
    strange = [name for name in names if name not in known]
    if strange and all(pool.nodes is not None for pool in pools):
        raise ValueError(
            f"NODES: found {', '.join(strange[:5])}; wanted: nodes of the stack's pools with GPUs, "
            "such as gpu-1,gpu-[3-4]; cure: correct the names, or leave NODES out for all"
        )
    return ",".join(names)


def chosen_tests(text: str, tests: Collection[str]) -> str:
    """Return the test names in a comma-separated list.

    Args:
        text: Names of tests, separated by commas.
        tests: Names of all tests of the stack.

    Raises:
        ValueError: The stack has no test with one of the names.
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if strange := [name for name in names if name not in tests]:
        known = f"of {', '.join(tests)}" if tests else "tests below `validation.tests`"
        raise ValueError(
            f"TESTS: found {', '.join(strange[:5])}; wanted: {known}; cure: correct the names, or "
            "declare the test in the stack file"
        )
    return ",".join(names)


def report_files() -> dict[str, Path]:
    """Return the files of the reports that JUNIT and CTRF name, by variable.

    Raises:
        FaultError: A file can't be written there.
    """
    named = {variable: os.environ.get(variable, "") for variable in REPORTS}
    return {variable: new_file(variable, path) for variable, path in named.items() if path}


@contextmanager
def reported(stack: str, answer: Answer, files: Mapping[str, Path]) -> Iterator[None]:
    """Write the reports of a validation, also after a failed run.

    Args:
        answer: The JSON document of the command; holds the outputs or the errors after a run.
        files: The files of the reports, by the variable that named each.
    """
    try:
        yield
    except SystemExit as error:
        told = answer.get("messages", ())
        errors = [message["text"] for message in told if message["severity"] == "error"]
        _write(stack, files, failed(str(error.code), errors))
        raise
    _write(stack, files, cases(answer["outputs"]["nodes"], answer["outputs"]["tests"]))


def _write(stack: str, files: Mapping[str, Path], found: Sequence[Case]) -> None:
    for variable, path in files.items():
        replace_text(path, REPORTS[variable](stack, found, datetime.now(UTC)))


def main() -> None:
    """Validate the nodes and run the tests that were chosen; exit with 1 if that fails."""
    stack = Stack.current()
    cluster = stack.cluster
    try:
        files = report_files()
        nodes, tests = os.environ.get("NODES", ""), os.environ.get("TESTS", "")
        os.environ[TESTS] = chosen_tests(tests, cluster.validation.tests)
        known = gpu_pools(cluster.pools), cluster.nodes_in_maintenance
        os.environ[ASKED] = chosen(nodes, *known) if nodes.strip() or not tests else ""
    except (FaultError, ValueError) as error:
        sys.exit(str(error))
    with (
        answering("validate") as answer,
        stack.held("make validate"),
        stack.unsalted(),
        reported(stack.name, answer, files),
    ):
        up.run(stack, answer, "validate")


if __name__ == "__main__":
    main()
