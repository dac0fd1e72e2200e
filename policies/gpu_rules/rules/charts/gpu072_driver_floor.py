"""Rule GPU072: the NVIDIA driver must have the security fixes of its branch."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...facts.floors import Software, below, borders, parse, wanted
from ..cel import text as literal
from ..each import each_release, in_turn
from ..example import Example, operator_release
from ..helm import ChartRelease
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin
from ..unknown import UNKNOWN, at, mapping, text
from .operator import part_version

# Node label of GPU Feature Discovery (k8s-device-plugin v0.20.0, docs/gpu-feature-discovery).
LABEL = "nvidia.com/cuda.driver-version.full"


def _of_a_release(chart: ChartRelease, _: Context) -> Iterator[Finding]:
    if at(chart.values, "driver", "enabled") not in (False, UNKNOWN):
        yield from _check_driver(*part_version(chart, "driver"))


def _of_a_node(subject: Subject, _: Context) -> Iterator[Finding]:
    if (subject.kind, subject.group_version) == ("Node", "v1"):
        labels = mapping(at(subject.manifest, "metadata", "labels"))
        yield from _check_driver(text(labels.get(LABEL)), f'metadata.labels["{LABEL}"]')


def _check_driver(version: str, path: str) -> Iterator[Finding]:
    if border := below(Software.DRIVER, version):
        yield Finding(
            path=path,
            found=f"driver {version[:40]}",
            wanted=wanted(Software.DRIVER, version, border),
            cure=f"Install that version: {border}.",
        )


RULE = Rule(
    id="GPU072",
    title="The driver has the security fixes of its branch",
    severity=Severity.ADVISORY,
    check=in_turn(_of_a_node, each_release(_of_a_release)),
    why="Every GPU container calls the driver in the kernel of the host, so a vulnerability "
    "there lets a container take over the host. The default driver of the GPU Operator can "
    "be too old.",
    source="NVIDIA's security bulletins 5520 to 5821 (gpu_rules/facts/security_floors.json)",
)

_DIGITS = 9
"""Maximum number of digits of each number in a version."""
_NUMBERS = f"[0-9]{{1,{_DIGITS}}}([.][0-9]{{1,{_DIGITS}}}){{1,3}}"


def _sort_key(*numbers: int) -> str:
    """Return a driver version's numbers with leading zeros, so that texts sort as versions do."""
    return "".join(f"{number:0{_DIGITS}}" for number in numbers)


def _in_cel(rows: list[tuple[str, ...]]) -> str:
    return "[" + ", ".join(f"[{', '.join(map(literal, row))}]" for row in sorted(rows)) + "]"


def _lowest_driver_cel() -> str:
    """Return a CEL expression for the lowest secure driver version, given a node's driver label.

    The expression contains the same table that `gpu_rules.facts.floors.below` uses in Python.
    """
    highest, newest = borders(Software.DRIVER)
    branch_floors = _in_cel(
        [
            (
                _sort_key(int(branch)),
                _sort_key(*parse(entry.fixed)),
                f"{wanted(Software.DRIVER, entry.fixed, entry)}: {entry}",
            )
            for branch, entry in highest.items()
        ]
    )
    later = _in_cel(
        [
            (
                _sort_key(int(branch)),
                f"{entry.fixed} or later: its own branch has no fix: {entry}",
            )
            for branch, entry in newest.items()
        ]
    )
    key = (
        f'(v.find("{_NUMBERS}").split(".").map(n, "{_sort_key(0)}".substring(size(n)) + n).join("")'
        f' + "{_sort_key(0, 0, 0)}").substring(0, {4 * _DIGITS})'
    )
    return (
        f'[object.metadata.?labels[?{literal(LABEL)}].orValue("")]'
        f'.filter(v, v.matches("^v?{_NUMBERS}($|[^0-9.])"))'
        f".map(v, [string(v), {key}, {key}.substring(0, {_DIGITS})])"
        f".map(d, [d[0]] + {branch_floors}.filter(b, b[0] == d[2] && d[1] < b[1]).map(b, b[2]) + "
        f"({later}.exists(b, b[0] == d[2]) ? [] : "
        f"{later}.filter(b, b[0] > d[2]).map(b, b[1])))"
        '.filter(d, size(d) > 1).map(d, "found driver " + d[0] + "; wanted: " + d[1])'
    )


TWIN = Twin(_lowest_driver_cel(), scopes=frozenset({Scope.NODES}))

EXAMPLE = Example.edited(
    operator_release("driver: {version: 580.159.03}"),
    ("version: 580.159.03", "version: 580.126.20"),
)
