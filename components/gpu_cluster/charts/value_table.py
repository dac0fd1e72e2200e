"""Tables of the values that each Helm chart reads, by chart version; files in `value_paths/`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "value_paths"

# Version series (major and minor) whose values are known, oldest first.
SERIES: Mapping[str, tuple[str, ...]] = {
    "gpu-operator": ("v26.3", "v26.7"),
    "nvidia-device-plugin": ("0.19", "0.20"),
    "dra-driver-nvidia-gpu": ("0.4", "0.5"),
    "hami": ("2.10",),
    "node-feature-discovery": ("0.17", "0.18", "0.19"),
}

_GROUP = re.compile(r"<(\w+)>|\{([^}]*)\}")
_SERIES = re.compile(r"(v?\d+\.\d+)\.\d+.*")

_FACTS = ("type", "setting", "cure", "means", "files", "switch", "only")
"""Keys of a path's facts that are attributes of `Value`."""

# Stands in `Dead.unread` for a path at which each value is refused.
NOTHING = object()


@dataclass(frozen=True)
class Value:
    """A path in a Helm chart's values, such as `driver.version`.

    Attributes:
        type: Type of the value (`gpu_cluster.charts.value_types`).
        setting: Setting of the stack file that sets the value; None if only `extraValues` can set
            the value.
        cure: Instruction to the user, shown in place of the setting's name; empty to show the name.
        means: What each value means in the stack file, as `setting: value` or `remove it: reason`.
            The key `any` is for all other values. Without it the setting has the value's own form.
        files: Path of the value that names the file of all nodes, if the value is a mapping of file
            names to texts; empty if it is something else.
        only: What the stack file must have for the setting to have an effect; empty if nothing.
        switch: Path of the value that turns this value's feature on; None if nothing does.
    """

    path: str
    type: str
    setting: str | None = None
    cure: str = ""
    means: Mapping[object, str] = field(default_factory=dict, hash=False)
    files: str = ""
    switch: str | None = None
    only: str = ""


@dataclass(frozen=True)
class Dead:
    """A path in a chart's values that the chart does not read.

    Attributes:
        was: Last chart version that read the path, or `never`.
        instead: Instruction to the user.
        unread: The only value that is accepted, because it is the chart's default.
    """

    path: str
    was: str
    instead: str
    unread: object = NOTHING


@dataclass(frozen=True)
class Table:
    """The paths in one Helm chart's values, for one series of versions (major and minor)."""

    chart: str
    series: str
    values: Mapping[str, Value]
    dead: Mapping[str, Dead]
    later: Mapping[str, str]
    """Paths that only later series read, mapped to the first of these series."""
    overrides: Mapping[str, Mapping[str, Value]]
    """Variables and flags that override a setting, by the path of their list and by their name."""

    def below(self, prefix: str) -> list[str]:
        """Return the keys that may follow a prefix, in the order of the table."""
        start = f"{prefix}." if prefix else ""
        paths = [path for path in self.values if path.startswith(start)]
        return list(dict.fromkeys(path[len(start) :].split(".")[0] for path in paths))

    def leads_on(self, prefix: str) -> bool:
        """Return True if a path of the table begins with the prefix and a dot."""
        start = f"{prefix}."
        return any(path.startswith(start) for path in (*self.values, *self.dead))


def series_of(version: str) -> str:
    """Return the series of a version: `v26.7` for `v26.7.0`."""
    match = _SERIES.fullmatch(version)
    return match[1] if match else version


def is_known(chart: str, version: str) -> bool:
    """Return True if the values of a chart's version are known."""
    return series_of(version) in SERIES[chart]


def known_versions(chart: str) -> str:
    """Return the versions of a chart whose values are known, for messages."""
    return " or ".join(f"{version}.x" for version in SERIES[chart])


def nearest_series(chart: str, version: str) -> str:
    """Return the series of a version if its values are known, or the nearest older known series.

    For a version that is older than all known series, return the oldest series.
    """
    older = [
        series
        for series in SERIES[chart]
        if _series_numbers(series) <= _series_numbers(series_of(version))
    ]
    return older[-1] if older else SERIES[chart][0]


def _series_numbers(series: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", series)))


def table(chart: str, version: str) -> Table:
    """Return the table of values for a chart's version.

    The table of an unknown version is that of the nearest known series.
    """
    return _read_table(chart, nearest_series(chart, version))


@cache
def _read_table(chart: str, series: str) -> Table:
    document = _read_document(chart)
    order = SERIES[chart]
    groups = document.get("groups", {})
    values: dict[str, Value] = {}
    dead: dict[str, Dead] = {}
    later: dict[str, str] = {}
    for text, entry in document["paths"].items():
        facts: dict[str, Any] = {"type": entry} if isinstance(entry, str) else entry
        is_added = order.index(series) >= order.index(facts.get("since", order[0]))
        gone = "before" in facts and order.index(series) >= order.index(facts["before"])
        for path in _expand(text, groups):
            if is_added and not gone:
                values[path] = Value(path=path, **{k: facts[k] for k in facts if k in _FACTS})
            elif not is_added:
                later[path] = facts["since"]
    for key, versions in document["subcharts"].items():
        below = _read_table("node-feature-discovery", versions[series])
        for path, value in below.values.items():
            values.setdefault(f"{key}.{path}", Value(f"{key}.{path}", value.type, value.setting))
        for path, reason in below.dead.items():
            instead = reason.instead.replace("extraValues.", f"extraValues.{key}.")
            dead[f"{key}.{path}"] = Dead(f"{key}.{path}", reason.was, instead)
    for text, facts in document["dead"].items():
        for path in _expand(text, groups):
            if not any(
                value_path == path or value_path.startswith(f"{path}.") for value_path in values
            ):
                unread = facts.get("unread", NOTHING)
                dead[path] = Dead(path, facts["was"], facts["instead"], unread)
    overrides: dict[str, dict[str, Value]] = {}
    for text, facts in document.get("overrides", {}).items():
        for path in _expand(text, groups):
            place, _, name = path.removesuffix("]").partition("[")
            overrides.setdefault(place, {})[name] = Value(path=path, **facts)
    return Table(chart, series, values, dead, later, overrides)


@cache
def _read_document(chart: str) -> dict[str, Any]:
    import yaml  # Importing PyYAML takes time, and only stacks with `extraValues` need it.

    from gpu_cluster.base.nesting import LOADER

    text = (FOLDER / f"{chart}.yaml").read_text("utf-8")
    document: dict[str, Any] = yaml.load(text, LOADER)  # noqa: S506 - a subclass of SafeLoader
    return document


def _expand(text: str, groups: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield all paths that match a pattern with groups such as `{a,b}` or `<name>`."""
    match = _GROUP.search(text)
    if match is None:
        yield text
        return
    members = groups[match[1]] if match[1] else match[2].split(",")
    for member in members:
        yield from _expand(text[: match.start()] + member + text[match.end() :], groups)
