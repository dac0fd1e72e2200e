"""Download or build the missing tools, and print all tools: `python -m gpu_cluster_lab.toolchain`.

The tests' tools are made by it. The verb of users is `gpu-cluster tools`.
"""

from __future__ import annotations

import sys

from gpu_cluster.machine.tool import ToolchainError, table

from .resolve import Toolchain


def main() -> None:
    """Print the tools; exit with 1 if a tool is not available."""
    try:
        tools = Toolchain().ensure()
    except ToolchainError as error:
        sys.exit(f"toolchain: {error}")
    print(*table([*tools.values()]), sep="\n")


if __name__ == "__main__":
    main()
