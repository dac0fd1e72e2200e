"""The page of all facts as Markdown; pure functions."""

from __future__ import annotations

from .floors import floors, newest_bulletin
from .parts import operator_charts
from .transitions import History, histories

PAGE = "docs/reference/facts.md"
"""Path of the page, relative to the project."""
_HEAD = """\
# Facts

This page lists facts about other projects' software, each with its source. Rules, previews, the
inspection and the list of images use these facts. `make facts` writes the page. How long each
version gets fixes is listed in [support](../support.md).
"""
_FLOORS = """\
## Security floors

A version below `fixed in` has a known vulnerability. If it is declared or runs, the program names
the version and the bulletin. A row with a branch applies to this driver branch. If a bulletin calls
a version both affected and fixed, only a later version counts as fixed. The newest bulletin that
was read is of {newest}. A part or a branch without a row has no bulletin that was read, which does
not mean that it is safe. Source: NVIDIA's security bulletins (NVIDIA/product-security, CSAF 2.0).

| part | branch | fixed in | bulletin | of | weaknesses | affected, in the bulletin's words |
| --- | --- | --- | --- | --- | --- | --- |
"""
_PARTS = """\
## Parts of the GPU Operator

What each version of the chart `gpu-operator` installs by itself. Source: the charts' own values.
"""


_TRANSITIONS = """\
## From which version to which

What the makers of each software support. Previews name the way from the running to the declared
version; a run refuses what its makers support in several steps only, or not back, unless
`rollout.unsupportedFrom` accepts it. "unknown": no source that was read says anything. In a series,
each later patch is supported.

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
