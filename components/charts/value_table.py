"""Which values a chart reads, by its version: tables under `value_paths/`, one per chart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "value_paths"

#: The series of versions whose values are known, oldest first.
SERIES: Mapping[str, tuple[str, ...]] = {
    "gpu-operator": ("v26.3", "v26.7"),
    "nvidia-device-plugin": ("0.19", "0.20"),
    "node-feature-discovery": ("0.17", "0.18", "0.19"),
}

_GROUP = re.compile(r"<(\w+)>|\{([^}]*)\}")
_SERIES = re.compile(r"(v?\d+\.\d+)\.\d+.*")

#: The value of a dead path that no table names: nothing may stand there.
NOTHING = object()


class UnknownVersion(Exception):
    """A version whose values are not known; the text lists those that are."""


@dataclass(frozen=True)
class Value:
    """One path: its type, and the setting of the stack file that decides it, if any."""

    path: str
    type: str
    setting: str | None = None


@dataclass(frozen=True)
class Dead:
    """A path that the chart does not read: the last version that did, and what to do instead."""

    path: str
    was: str
    instead: str
    unread: object = NOTHING


@dataclass(frozen=True)
class Table:
    """The paths of one chart in one series of versions."""

    chart: str
    series: str
    values: Mapping[str, Value]
    dead: Mapping[str, Dead]
    later: Mapping[str, str]
    """Paths that only later series read, and the first that does."""

    def below(self, prefix: str) -> list[str]:
        """The keys that may follow a prefix, in the table's order."""
        start = f"{prefix}." if prefix else ""
        known = [path for path in self.values if path.startswith(start)]
        return list(dict.fromkeys(path[len(start) :].split(".")[0] for path in known))

    def leads_on(self, prefix: str) -> bool:
        """Whether a path, read or dead, goes on below a prefix."""
        start = f"{prefix}."
        return any(path.startswith(start) for path in (*self.values, *self.dead))


def series_of(version: str) -> str:
    """`v26.7.0` as `v26.7`."""
    match = _SERIES.fullmatch(version)
    return match[1] if match else version


def check_version(chart: str, version: str) -> None:
    """Raises `UnknownVersion` where the values of a chart's version are not known."""
    if series_of(version) not in SERIES[chart]:
        raise UnknownVersion(" or ".join(f"{version}.x" for version in SERIES[chart]))


def table(chart: str, version: str) -> Table:
    """The values of a chart's version. Raises `UnknownVersion`."""
    check_version(chart, version)
    return _table(chart, series_of(version))


@cache
def _table(chart: str, series: str) -> Table:
    document = _document(chart)
    order = SERIES[chart]
    groups = document.get("groups", {})
    values: dict[str, Value] = {}
    dead: dict[str, Dead] = {}
    later: dict[str, str] = {}
    for text, entry in document["paths"].items():
        facts = {"type": entry} if isinstance(entry, str) else entry
        there = order.index(series) >= order.index(facts.get("since", order[0]))
        gone = "before" in facts and order.index(series) >= order.index(facts["before"])
        for path in _expand(text, groups):
            if there and not gone:
                values[path] = Value(path, facts["type"], facts.get("setting"))
            elif not there:
                later[path] = facts["since"]
    for key, versions in document["subcharts"].items():
        below = _table("node-feature-discovery", versions[series])
        for path, value in below.values.items():
            values.setdefault(f"{key}.{path}", Value(f"{key}.{path}", value.type, value.setting))
        for path, reason in below.dead.items():
            dead[f"{key}.{path}"] = Dead(f"{key}.{path}", reason.was, reason.instead)
    for text, facts in document["dead"].items():
        for path in _expand(text, groups):
            if not any(known == path or known.startswith(f"{path}.") for known in values):
                unread = facts.get("unread", NOTHING)
                dead[path] = Dead(path, facts["was"], facts["instead"], unread)
    return Table(chart, series, values, dead, later)


@cache
def _document(chart: str) -> dict[str, Any]:
    import yaml  # needed where a stack gives values of its own

    document: dict[str, Any] = yaml.safe_load((FOLDER / f"{chart}.yaml").read_text("utf-8"))
    return document


def _expand(text: str, groups: Mapping[str, list[str]]) -> Iterator[str]:
    """The paths that a text with groups stands for."""
    match = _GROUP.search(text)
    if match is None:
        yield text
        return
    members = groups[match[1]] if match[1] else match[2].split(",")
    for member in members:
        yield from _expand(text[: match.start()] + member + text[match.end() :], groups)
