"""Print figures about this project's structure (`make house`); exit with 1 if a goal is missed."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.house import imports, whole
from lab.house.imports import Edge, Layers
from lab.house.tree import Tree

GOALS = (0, 0, 5)
"""Maximum number of each figure: upward imports, import cycles, functions that take the whole."""


@dataclass(frozen=True)
class Shape:
    """Measured structure of a source tree: imports, cycles and functions.

    A goal is a maximum for each count (`GOALS`).
    """

    upward: list[Edge]
    circles: list[list[str]]
    takers: list[str]
    outside: list[str]

    @property
    def figures(self) -> tuple[int, ...]:
        """Return the measured figures about the source code, in the order of `GOALS`."""
        return (len(self.upward), len(self.circles), len(self.takers))

    @property
    def is_good(self) -> bool:
        """Return True if all figures meet `GOALS` and each module belongs to an import layer."""
        return all(map(int.__le__, self.figures, GOALS)) and not self.outside

    @property
    def line(self) -> str:
        """Return the summary line with all figures."""
        upward, circles, takers = self.figures
        return (
            f"house: {upward} upward imports, {circles} circles, {takers} functions take the whole"
        )

    def lines(self) -> Iterator[str]:
        """Yield the output of `make house LIST=1`: each function, import and class that counts."""
        yield "Upward imports:"
        yield from (f"  {edge}" for edge in self.upward)
        yield "Modules in no layer:"
        yield from (f"  {name}" for name in self.outside)
        yield "Circles:"
        yield from (f"  {', '.join(circle)}" for circle in self.circles)
        yield "Functions and data classes that take the whole:"
        yield from (f"  {taker}" for taker in self.takers)


def measure(root: Path) -> Shape:
    """Measure a source tree against the layers contract in its pyproject.toml.

    Raises:
        LookupError: The file has no `layers` contract.
    """
    project = root / "pyproject.toml"
    packages = tomllib.loads(project.read_text())["tool"]["importlinter"]["root_packages"]
    layers = Layers.read(project)
    if layers is None:
        raise LookupError(
            f"{project}: found no contract of type layers; wanted: one in [tool.importlinter]; "
            "cure: add it"
        )
    tree = Tree(root, packages)
    edges = imports.edges(tree)
    return Shape(
        layers.upward(edges),
        imports.circles(edges),
        whole.takers(tree),
        layers.outside(tree.modules, packages),
    )


def main(arguments: list[str] | None = None) -> int:
    """Run `make house`: print the summary line, and return the exit code."""
    parser = argparse.ArgumentParser(prog="house", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print what stands behind the figures")
    parser.add_argument("--root", type=Path, default=Path(), help="the tree (this folder)")
    chosen = parser.parse_args(arguments)
    try:
        shape = measure(chosen.root)
    except LookupError as error:
        print(f"house: {error}", file=sys.stderr)
        return 2
    if chosen.list:
        print("\n".join(shape.lines()))
    print(shape.line)
    return 0 if shape.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
