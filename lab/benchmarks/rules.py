"""Benchmark B6: cost of this project's rules in previews, in the checker and in admission."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.benchmarks import admission, checker, preview
from lab.benchmarks.measure import write
from lab.benchmarks.project import ROOT

PARTS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "preview": preview.run,
    "checker": checker.run,
    "admission": admission.run,
}
"""Parts of B6; each function measures, prints and returns a result, whose `met` is its goal."""


def run() -> bool:
    """Run all parts of benchmark B6, and return True if all goals are met."""
    results = {name: part() for name, part in PARTS.items()}
    path = write("B6", results)
    print(f"written: {path.relative_to(ROOT)}")
    missed = [name for name, result in results.items() if not result["met"]]
    print(f"B6: missed: {', '.join(missed)}" if missed else "B6: all goals met")
    return not missed
