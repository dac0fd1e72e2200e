"""Nodes and tests that the user selects by environment variables, without a new stack file."""

from __future__ import annotations

import os

ASKED = "GPU_CLUSTER_VALIDATE"
"""Environment variable with the nodes to validate again: names separated by commas, or `all`."""
ALL = "all"
TESTS = "GPU_CLUSTER_TESTS"
"""Environment variable with the names of tests to run, separated by commas."""


def is_asked(name: str) -> bool:
    """Return True if the user requests a node's validation, even if the last one is valid."""
    requested = [name.strip() for name in os.environ.get(ASKED, "").split(",")]
    return name in requested or ALL in requested


def tests() -> list[str]:
    """Return the names of the tests to run; empty if the variable is not set."""
    return [name for item in os.environ.get(TESTS, "").split(",") if (name := item.strip())]


def is_tested(name: str) -> bool:
    """Return whether tests must run on a node; true for every node if no node is selected."""
    return not os.environ.get(ASKED) or is_asked(name)
