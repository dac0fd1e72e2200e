"""Program of `make validate NODES=gpu-[1-2]`: bring the stack up and validate nodes again.

Without NODES all nodes are validated. `make validate TESTS=all-reduce` runs user-defined tests on
the named nodes, or on all of them, and validates only nodes that are named.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

from commands import up
from commands.stack import Stack
from commands.watched import answering
from components.settings.nodes.node_range import expand
from components.settings.nodes.pool import Pool, gpu_pools
from components.validation.selection import ALL, ASKED, TESTS


def chosen(text: str, pools: Sequence[Pool], maintenance: Collection[str]) -> str:
    """Return the node names that a list of names and ranges stands for, separated by commas.

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
            f"NODES: found {', '.join(resting[:5])}, in maintenance; wanted: nodes at work; "
            "cure: take them out of `maintenance` of the stack, or out of NODES"
        )
    strange = [name for name in names if name not in known]
    if strange and all(pool.nodes is not None for pool in pools):
        raise ValueError(
            f"NODES: found {', '.join(strange[:5])}; wanted: nodes of the stack's pools with GPUs, "
            "such as gpu-1,gpu-[3-4]; cure: correct the names, or leave NODES out for all"
        )
    return ",".join(names)


def chosen_tests(text: str, tests: Collection[str]) -> str:
    """Return the test names of a list, separated by commas.

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


def main() -> None:
    """Validate the nodes and run the tests that were chosen; exit with 1 if that fails."""
    stack = Stack.current()
    cluster = stack.cluster
    try:
        nodes, tests = os.environ.get("NODES", ""), os.environ.get("TESTS", "")
        os.environ[TESTS] = chosen_tests(tests, cluster.validation.tests)
        known = gpu_pools(cluster.pools), cluster.nodes_in_maintenance
        os.environ[ASKED] = chosen(nodes, *known) if nodes.strip() or not tests else ""
    except ValueError as error:
        sys.exit(str(error))
    with answering("validate") as answer, stack.held("make validate"), stack.unsalted():
        up.run(stack, answer, "validate")


if __name__ == "__main__":
    main()
