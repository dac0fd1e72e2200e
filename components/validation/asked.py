"""Nodes that the user wants validated anew, by the environment: no stack file changes for it."""

from __future__ import annotations

import os

ASKED = "GPU_CLUSTER_VALIDATE"
"""Environment variable: names of nodes, separated by commas, or ``all``."""
ALL = "all"


def is_asked(name: str) -> bool:
    """Whether a node is to be validated though its last validation holds."""
    asked = [each.strip() for each in os.environ.get(ASKED, "").split(",")]
    return name in asked or ALL in asked
