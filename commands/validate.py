"""`make validate NODES=gpu-[1-2]`: brings the stack up and validates nodes anew, or all of them.

`make validate TESTS=all-reduce` runs user-defined tests on these nodes or on all, and validates
only the nodes that are named.
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
    """Return the nodes that a list of names and ranges means, as the environment holds them.

    Args:
        text: names and ranges, separated by commas; empty: all nodes.
        pools: the pools with GPUs.
        maintenance: names of the nodes in maintenance.

    Raises:
        ValueError: a name that no pool with GPUs has, where no pool is by selector; or one of a
            node in maintenance.
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
    """Return the tests that a list of names means.

    Args:
        text: names, separated by commas.
        tests: names of all tests of the stack.

    Raises:
        ValueError: a name that no test has.
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
    """Runs the command; exit code 1 when a GPU did not run its kernel."""
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
