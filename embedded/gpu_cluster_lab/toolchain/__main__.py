"""Run `gpu-cluster tools`: download or build missing tools, and print all tools."""

from __future__ import annotations

import argparse
import sys

from gpu_cluster.machine.tool import Tool, ToolchainError

from .resolve import Toolchain


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a tool is not available, otherwise 0."""
    parser = argparse.ArgumentParser(prog="gpu-cluster tools", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a tool; all where none is named")
    one_of = parser.add_mutually_exclusive_group()
    one_of.add_argument("--path", metavar="NAME", help="print the path of one tool alone")
    one_of.add_argument("--bin", action="store_true", help="print the folder for PATH alone")
    parser.add_argument(
        "--refresh", action="store_true", help="look again for official tools in place of our own"
    )
    chosen = parser.parse_args(arguments)
    toolchain = Toolchain()
    try:
        if chosen.path:
            print(toolchain.ensure(chosen.path, refresh=chosen.refresh)[chosen.path].path)
            return 0
        tools = toolchain.ensure(*chosen.names, refresh=chosen.refresh)
    except ToolchainError as error:
        print(f"toolchain: {error}", file=sys.stderr)
        return 1
    if chosen.bin:
        print(toolchain.bin)
    else:
        _show(list(tools.values()))
    return 0


def _show(tools: list[Tool]) -> None:
    head = ("tool", "version", "origin", "path")
    rows = [head, *((tool.name, tool.version, tool.origin, str(tool.path)) for tool in tools)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        print("  ".join((*cells, row[3])))


if __name__ == "__main__":
    sys.exit(main())
