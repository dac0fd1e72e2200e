"""Run `gpu-cluster validate`: bring the stack up and validate nodes again, all or those named.

If tests are named, they run on the named nodes, or on all of them, and only nodes that are named
are validated.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic_core import PydanticCustomError

from gpu_cluster.change.file import replace_text
from gpu_cluster.commands import up
from gpu_cluster.commands import validation_reports as reports
from gpu_cluster.commands.files import new_file
from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.validation_reports import Case, cases, failed
from gpu_cluster.settings.nodes.node_range import expand
from gpu_cluster.settings.nodes.pool import Pool, gpu_pools
from gpu_cluster.validation.selection import ALL, ASKED, TESTS
from gpu_rules.faults import Fault, FaultError, PartError

REPORTS = {"--junit": reports.junit, "--ctrf": reports.ctrf}
"""The forms of reports, by the option that names the report's file."""


def chosen(text: str, pools: Sequence[Pool], maintenance: Collection[str]) -> str:
    """Expand a comma-separated list of node names and ranges to node names.

    Args:
        text: Names and ranges such as ``gpu-[1-2]``, separated by commas; an empty text means all
            nodes.
        pools: The pools with GPUs.
        maintenance: Names of the nodes in maintenance.

    Raises:
        PartError: A range of names is malformed.
        FaultError: A name belongs to a node in maintenance, or to no pool with GPUs. The second is
            not checked if a pool selects its nodes by labels.
    """
    if not text.strip():
        return ALL
    try:
        names = [name for pattern in text.split(",") for name in expand(pattern.strip())]
    except PydanticCustomError as error:
        raise PartError(f"--nodes: {error}") from error
    known_names = {name for pool in pools for name in pool.node_names}
    if resting := [name for name in names if name in maintenance]:
        found = f"{', '.join(resting[:5])}, in maintenance"
        cure = "remove them from `maintenance` of the stack, or from --nodes"
        raise FaultError(Fault("--nodes", found, "nodes in use", cure))
    strange = [name for name in names if name not in known_names]
    if strange and all(pool.nodes is not None for pool in pools):
        wanted = "nodes of the stack's pools with GPUs, such as gpu-1,gpu-[3-4]"
        cure = "correct the names, or leave --nodes out for all"
        raise FaultError(Fault("--nodes", ", ".join(strange[:5]), wanted, cure))
    return ",".join(names)


def chosen_tests(text: str, tests: Collection[str]) -> str:
    """Return the test names in a comma-separated list.

    Args:
        text: Names of tests, separated by commas.
        tests: Names of all tests of the stack.

    Raises:
        FaultError: The stack has no test with one of the names.
    """
    names = [name for item in text.split(",") if (name := item.strip())]
    if strange := [name for name in names if name not in tests]:
        known = f"of {', '.join(tests)}" if tests else "tests below `validation.tests`"
        cure = "correct the names, or declare the test in the stack file"
        raise FaultError(Fault("--tests", ", ".join(strange[:5]), known, cure))
    return ",".join(names)


def report_files(paths: Mapping[str, str]) -> dict[str, Path]:
    """Return the files of the reports that options name, by option.

    Raises:
        FaultError: A file can't be written there.
    """
    return {option: new_file(option, path) for option, path in paths.items() if path}


@contextmanager
def reported(stack: str, json_output: Answer, files: Mapping[str, Path]) -> Iterator[None]:
    """Write the reports of a validation, also after a failed run.

    Args:
        json_output: The JSON document of the command; holds the outputs or the errors after a run.
        files: The files of the reports, by the option that named each.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        messages = json_output.get("messages", ())
        errors = [message["text"] for message in messages if message["severity"] == "error"]
        _write_reports(stack, files, failed(str(error), errors))
        raise
    _write_reports(
        stack, files, cases(json_output["outputs"]["nodes"], json_output["outputs"]["tests"])
    )


def _write_reports(stack: str, files: Mapping[str, Path], results: Sequence[Case]) -> None:
    for option, path in files.items():
        replace_text(path, REPORTS[option](stack, results, datetime.now(UTC)))


def main(*, nodes: str = "", tests: str = "", junit: str = "", ctrf: str = "") -> None:
    """Validate the nodes and run the tests that were chosen; exit with 1 if that fails.

    Args:
        nodes: Names and ranges of nodes, separated by commas; empty: all, or none if tests run.
        tests: Names of tests, separated by commas.
        junit: File that gets the results as JUnit XML; empty: none.
        ctrf: File that gets the results as CTRF JSON; empty: none.
    """
    stack = Stack.current()
    cluster = stack.cluster
    files = report_files({"--junit": junit, "--ctrf": ctrf})
    os.environ[TESTS] = chosen_tests(tests, cluster.validation.tests)
    pools_and_maintenance = gpu_pools(cluster.pools), cluster.nodes_in_maintenance
    os.environ[ASKED] = chosen(nodes, *pools_and_maintenance) if nodes.strip() or not tests else ""
    with (
        answering("validate") as json_output,
        stack.held("gpu-cluster validate"),
        stack.unsalted(),
        reported(stack.name, json_output, files),
    ):
        up.run(stack, json_output, "validate")
