"""What the validation is asked by the environment: no stack file changes for it."""

from __future__ import annotations

import os

ASKED = "GPU_CLUSTER_VALIDATE"
"""Environment variable: names of nodes, separated by commas, or ``all``."""
ALL = "all"
TESTS = "GPU_CLUSTER_TESTS"
"""Environment variable: names of tests to run, separated by commas."""


def is_asked(name: str) -> bool:
    """Whether a node is to be validated though its last validation holds."""
    asked = [name.strip() for name in os.environ.get(ASKED, "").split(",")]
    return name in asked or ALL in asked


def tests() -> list[str]:
    """Names of the tests that are to run; without a word none does."""
    return [name for part in os.environ.get(TESTS, "").split(",") if (name := part.strip())]


def is_tested(name: str) -> bool:
    """Whether tests are to run on a node: all are meant where none is named."""
    return not os.environ.get(ASKED) or is_asked(name)
