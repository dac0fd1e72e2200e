"""Summary line of `make test-versions`: results by claimed version.

The kinds of the marker `versions` are the keys of `PHRASES`. Its name is a version, a bulletin, a
repair or a claim. Tests of one version border of a security bulletin have the same id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.proofs.count import Count, Outcome, Results, has_passed, number_passed, of_all

ROOT = Path(__file__).resolve().parents[3]


def _kubernetes(results: Results) -> str:
    up = sorted(name for name in results if has_passed(results[name]))
    down = sorted(results.keys() - up)
    return " ".join(["Kubernetes", *up, "up and down", *(["but not", *down] if down else [])])


def _borders(results: Results) -> str:
    borders: dict[str, bool] = {}
    for tests in results.values():
        # A version border of a security bulletin has a test for each side, and for each place in
        # the code that applies the border.
        for test, outcome in tests.items():
            border = test.rpartition("[")[2]
            borders[border] = borders.get(border, True) and outcome is Outcome.PASSED
    return (
        f"{of_all(results)} bulletins applied at {sum(borders.values())} of {len(borders)} borders"
    )


def _past(results: Results) -> str:
    return f"{len(results) - number_passed(results)} claims past their end"


PHRASES: Mapping[str, Callable[[Results], str]] = MappingProxyType(
    {
        "kubernetes": _kubernetes,
        "containerd": lambda results: f"{of_all(results)} containerd",
        "bulletin": _borders,
        "heal": lambda results: f"{of_all(results)} heals under the next provider",
        "claim": _past,
    }
)
"""For each kind, the function that returns its part of the summary line, in this order."""


def _line(seen: Mapping[str, Results]) -> str:
    return ", ".join(say(seen[kind]) for kind, say in PHRASES.items() if kind in seen)


def counting() -> Count:
    """Return the plugin that counts tests of claimed versions."""
    return Count("versions", _line)
