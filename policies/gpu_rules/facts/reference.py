"""The page of all facts as Markdown; pure functions."""

from __future__ import annotations

from .engine_floors import newest_advisory, series, unfixed
from .floors import floors, newest_bulletin
from .parts import operator_charts
from .transitions import History, histories

PAGE = "docs/reference/facts.md"
"""Path of the page, relative to the project."""
_HEAD = """\
# Facts

This page lists facts about other projects' software, each with its source. Rules, previews, the
inspection and the list of images use these facts. `make facts` writes the page.
[Support](../support.md) lists how long each version gets fixes.
"""
_FLOORS = """\
## Security floors

A version below `fixed in` has a known vulnerability. If such a version runs or is declared, the
program names the version and the bulletin. A row with a branch applies to this driver branch only.

If a bulletin calls a version both affected and fixed, only a later version counts as fixed here.

The newest bulletin that this project read is of {newest}. A part or branch without a row is not
known to be safe: this project has read no bulletin about it. Source: NVIDIA's security bulletins
(NVIDIA/product-security, CSAF 2.0).

| part | branch | fixed in | bulletin | of | weaknesses | affected, in the bulletin's words |
| --- | --- | --- | --- | --- | --- | --- |
"""
_ENGINES = """\
## Security floors of container engines

The first version of each series, or of a later one, without a known weakness. Inspections of hosts
name a version below it, unless its support has ended. A distribution may have fixed the package
that it builds itself under an older number. The newest advisory that was read is of {newest}. A
series without a row has no known weakness, which does not mean that it is safe. Source: the makers'
advisories in the Go vulnerability database (golang/vulndb, OSV), without ranges that have no fix.

| part | series | fixed in | advisory | of | weaknesses |
| --- | --- | --- | --- | --- | --- |
"""
_PARTS = """\
## Parts of the GPU Operator

This table lists the parts that each version of the chart `gpu-operator` installs by default.
Source: the values of the charts.
"""


_TRANSITIONS = """\
## From which version to which

This table lists the version changes that the makers of each software support. Previews print which
versions lie between the running and the declared version. A run refuses a change that the makers
support only in several steps, and a downgrade that they don't support, unless
`rollout.unsupportedFrom` accepts it. "unknown" means that no source was found. Inside a series, a
change to each later patch is supported.

| software | series that were read | forward | also in one step | back | source, and its date |
| --- | --- | --- | --- | --- | --- |
"""
_FORWARD = {
    "next": "to the next series",
    "any": "to each later series",
    "listed": "only what the next column lists; else unknown",
}
_BACK = {"any": "supported", "no": "not supported", "unknown": "unknown"}


def page() -> str:
    """Return the page of all facts."""
    transitions = _TRANSITIONS + "".join(map(_transition_row, histories().values()))
    return "\n".join(
        (
            _HEAD,
            _FLOORS.format(newest=newest_bulletin()) + _floor_rows(),
            _ENGINES.format(newest=newest_advisory()) + _engine_rows(),
            _PARTS,
            _part_rows(),
            transitions,
        )
    )


def _transition_row(history: History) -> str:
    order = history.order
    return _table_row(
        history.title,
        f"{order[0]} to {order[-1]}" if order else "consecutive minor versions",
        _FORWARD[history.forward],
        ", ".join(f"{was} → {now}" for was, now in sorted(history.steps)),
        _BACK[history.back]
        + (
            f"; not supported to {history.no_way_back_to} or older"
            if history.no_way_back_to
            else ""
        ),
        f"{history.source}; {history.read}",
    )


def _floor_rows() -> str:
    rows = (
        _table_row(
            floor.part,
            floor.branch,
            f"later than {floor.fixed}, see the last column"
            if floor.contradiction
            else floor.fixed,
            floor.bulletin,
            floor.date,
            ", ".join(floor.cves),
            floor.affected.replace("|", "\\|")
            + (f", and {floor.fixed} is fixed: both" if floor.contradiction else ""),
        )
        for floor in floors()
    )
    return "".join(rows)


def _engine_rows() -> str:
    found = ((software, name, unfixed(software, f"{name}.0")) for software, name in series())
    return "".join(
        _table_row(software, name, each.fixed, each.advisory, each.date, ", ".join(each.cves))
        for software, name, each in found
        if each
    )


def _part_rows() -> str:
    charts = operator_charts()
    paths = dict.fromkeys(path for components in charts.values() for path in components)
    head = _table_row("part", *charts) + _table_row(*["---"] * (len(charts) + 1))
    return head + "".join(
        _table_row(path, *(components.get(path, "") for components in charts.values()))
        for path in paths
    )


def _table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"
