"""B6: what the rules cost where they are held, each part against the same without them."""

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
"""Each measures and prints; what it gives back is kept, `met` says whether its goal is."""


def run() -> bool:
    """Runs all parts; whether all goals are met."""
    results = {name: part() for name, part in PARTS.items()}
    path = write("B6", results)
    print(f"written: {path.relative_to(ROOT)}")
    missed = [name for name, result in results.items() if not result["met"]]
    print(f"B6: missed: {', '.join(missed)}" if missed else "B6: all goals met")
    return not missed
