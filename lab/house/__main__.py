"""Print figures about this project's structure (`make house`); exit with 1 if a goal is missed."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.house import imports, route, whole
from lab.house.imports import Edge, Layers
from lab.house.tree import Definition, Tree

VALUE = "components/gpu_cluster/cluster.py:GpuCluster.__init__:args"
"""Parameter whose way through the program is measured."""

GOALS = (15, 10, 0, 0, 5)
"""Maximum number of each figure.

The figures are files, returns, upward imports, import cycles, and functions that take the whole
configuration.
"""


@dataclass(frozen=True)
class Shape:
    """Measured structure of a source tree: counts of imports, cycles and functions.

    A goal is a maximum for each count (`GOALS`).
    """

    route: route.Route
    upward: list[Edge]
    circles: list[list[str]]
    takers: list[Definition]
    outside: list[str]

    @property
    def figures(self) -> tuple[int, ...]:
        """Return the measured figures about the source code, in the order of `GOALS`."""
        counted = (len(self.upward), len(self.circles), len(self.takers))
        return (len(self.route.rooms), self.route.returns, *counted)

    @property
    def good(self) -> bool:
        """Return True if all figures meet `GOALS` and each module belongs to an import layer."""
        reached = all(map(int.__le__, self.figures, GOALS))
        return reached and not self.outside

    def line(self, value: str) -> str:
        """Return the summary line with all figures; `value` is the parameter that was followed."""
        name = value.rpartition(":")[2]
        files, returns, upward, circles, takers = self.figures
        return (
            f"house: {name} pass {files} files with {returns} returns, {upward} upward imports, "
            f"{circles} circles, {takers} functions take the whole"
        )

    def lines(self) -> Iterator[str]:
        """Yield the output of `make house LIST=1`: each function, import and class that counts."""
        yield "The value's stays (<- marks a return):"
        seen: set[str] = set()
        for where, names in self.route.stays:
            back = " <-" if where.module.path in seen else ""
            seen.add(where.module.path)
            yield f"  {where} ({', '.join(names)}){back}"
        yield "Upward imports:"
        yield from (f"  {edge}" for edge in self.upward)
        yield "Modules in no layer:"
        yield from (f"  {name}" for name in self.outside)
        yield "Circles:"
        yield from (f"  {', '.join(circle)}" for circle in self.circles)
        yield "Functions and data classes that take the whole:"
        yield from (f"  {one}" for one in self.takers)


def measure(root: Path, contract: Path, value: str) -> Shape:
    """Measure a source tree: the way of one parameter, and imports against a layers contract.

    Raises:
        LookupError: The contract's file has no `layers` contract, or the tree has no parameter
            `value`.
    """
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]
    packages = settings["root_packages"]
    layers = Layers.read(contract)
    if layers is None:
        raise LookupError(
            f"{contract}: found no contract of type layers; wanted: one in [tool.importlinter]; "
            "cure: add it, or name a file that has it: --contract FILE"
        )
    tree = Tree(root, packages)
    found = imports.edges(tree)
    return Shape(
        route.follow(tree, *route.start(tree, value)),
        layers.upward(found),
        imports.circles(found),
        whole.takers(tree),
        layers.outside(tree.modules, packages),
    )


def main(arguments: list[str] | None = None) -> int:
    """Run `make house`: print the summary line, and return the exit code."""
    parser = argparse.ArgumentParser(prog="house", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print what stands behind the figures")
    parser.add_argument("--root", type=Path, default=Path(), help="the tree (this folder)")
    parser.add_argument("--contract", type=Path, help="a file with a layers contract")
    parser.add_argument("--value", default=VALUE, help="path.py:function:parameter to follow")
    chosen = parser.parse_args(arguments)
    contract = chosen.contract or chosen.root / "pyproject.toml"
    try:
        shape = measure(chosen.root, contract, chosen.value)
    except LookupError as error:
        print(f"house: {error}", file=sys.stderr)
        return 2
    if chosen.list:
        print("\n".join(shape.lines()))
    print(shape.line(chosen.value))
    return 0 if shape.good else 1


if __name__ == "__main__":
    sys.exit(main())
