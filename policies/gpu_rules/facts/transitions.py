"""Verdicts on changes of software from one version to another, from a generated table.

The table says what the makers say: which series of versions follow each other, which steps they
support, and what each release of a Helm chart changes (`maintenance/transitions.yaml` and
`maintenance/transitions.py`).
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("transitions.json")
_NUMBERS = re.compile(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){0,3})")


class Verdict(StrEnum):
    """What the publisher of a software documents about a change of its version.

    - `supported`: they support the change in one step.
    - `by-way-of`: they support it only in several steps.
    - `not-back`: they exclude a change to the older version.
    - `unknown`: no source that was read says anything about it.
    """

    SUPPORTED = "supported"
    BY_WAY_OF = "by-way-of"
    NOT_BACK = "not-back"
    UNKNOWN = "unknown"

    @property
    def is_refused(self) -> bool:
        """Return whether a run must not make such a change in one step."""
        return self in (Verdict.BY_WAY_OF, Verdict.NOT_BACK)


@dataclass(frozen=True, kw_only=True)
class Transition:
    """A change of a software's version, and what its publisher documents about the change.

    Attributes:
        path: Versions of the supported way, from the first to the last. Empty: there is none.
        source: Document that the verdict comes from.
        read: Date of that document.
        definitions: CustomResourceDefinitions that differ between the two releases.
        dropped: Values of the earlier chart that the later chart does not have.
        replaced: Parts of the chart with another version, whose pods restart: name, old and new
            version.
        notes: What the makers say about a series on the way.
    """

    software: str
    title: str
    was: str
    now: str
    verdict: Verdict
    path: tuple[str, ...] = ()
    source: str = ""
    read: str = ""
    definitions: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of software.

    Attributes:
        published: Date of the release. Empty: unknown.
        source: Where its version was read, if its own repository was not read.
        parts: Versions of the images of a chart, by section of its values.
        optional: Parts and subcharts that are off by default.
        definitions: Digest of each CustomResourceDefinition of a chart; those of a subchart as
            `subchart/name`.
        values: Paths of a chart's values that are not in the release before it.
        dropped: Paths of the values of the release before it that this release does not have.
    """

    published: str = ""
    source: str = ""
    parts: Mapping[str, str] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    definitions: Mapping[str, str] = field(default_factory=dict)
    values: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class History:
    """The releases of one software, and the upgrades that its publisher supports.

    Attributes:
        order: Series of versions, oldest first. Empty: series are consecutive minor versions.
        forward: `next`, `any` or `listed`.
        back: `any`, `no` or `unknown`.
        no_way_back_to: Series to which, and to earlier ones, the makers exclude a way back from
            later ones. Empty: none.
        steps: More pairs of series that are supported in one step.
        releases: Releases by version, oldest first.
        notes: What the makers say about a series; `*` is for each series.
        kubernetes: By series, the oldest and the newest minor version of Kubernetes that the makers
            support it with; empty texts if they name none.
    """

    software: str
    title: str
    order: tuple[str, ...]
    forward: str
    back: str
    no_way_back_to: str
    steps: frozenset[tuple[str, str]]
    source: str
    read: str
    releases: Mapping[str, Release]
    notes: Mapping[str, tuple[str, ...]]
    kubernetes: Mapping[str, tuple[str, str]]

    def works_with(self, version: str, kubernetes: str) -> bool:
        """Return whether the makers support a version with a minor version of Kubernetes.

        The result is true if no source names a limit.
        """
        oldest, newest = self.kubernetes.get(self.series(version), ("", ""))
        minor = parse(kubernetes)[:2]
        return (not oldest or parse(oldest) <= minor) and (not newest or minor <= parse(newest))

    def series(self, version: str) -> str:
        """Return the series of a version, such as `26.7`; empty if no source names the series."""
        numbers = parse(version)
        if not self.order:
            return ".".join(map(str, numbers[:2])) if len(numbers) > 1 else ""
        names = (".".join(map(str, numbers[:count])) for count in (2, 1) if len(numbers) >= count)
        return next((series for series in names if series in self.order), "")

    def newest(self, series: str) -> str:
        """Return the newest release of a series, or the series itself if no release is known."""
        versions = [version for version in self.releases if self.series(version) == series]
        return versions[-1] if versions else series

    def position(self, version: str) -> tuple[int, ...]:
        """Return a key that sorts versions by age; empty if the series is unknown."""
        series, numbers = self.series(version), parse(version)
        if not series:
            return ()
        return (self.order.index(series), *numbers) if self.order else numbers

    def next_series(self, series: str) -> Iterator[str]:
        """Yield the later series to which a change is supported in one step."""
        if not self.order:
            major, minor = parse(series)
            yield f"{major}.{minor + 1}"
            return
        later = self.order[self.order.index(series) + 1 :]
        supported = {"next": later[:1], "any": later, "listed": ()}[self.forward]
        for later_series in later:
            if later_series in supported or (series, later_series) in self.steps:
                yield later_series


def parse(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as `v1.34.4+k3s1`; empty if it is no version."""
    match = _NUMBERS.match(version[:60])
    return tuple(map(int, match[1].split("."))) if match else ()


@cache
def histories() -> dict[str, History]:
    """Return the histories of all software, by name."""
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))["software"]
    return {name: _history(name, entry) for name, entry in document.items()}


def _history(name: str, entry: Mapping[str, Any]) -> History:
    return History(
        software=name,
        title=entry["title"],
        order=tuple(entry["order"]),
        forward=entry["forward"],
        back=entry["back"],
        no_way_back_to=entry["no_way_back_to"],
        steps=frozenset((was, now) for was, now in entry["steps"]),
        source=entry["source"],
        read=entry["read"],
        releases={
            version: Release(
                published=release.get("published", ""),
                source=release.get("source", ""),
                parts=release.get("parts", {}),
                optional=frozenset(release.get("optional", ())),
                definitions=release.get("definitions", {}),
                values=tuple(release.get("values", ())),
                dropped=tuple(release.get("dropped", ())),
            )
            for version, release in entry["releases"].items()
        },
        notes={series: tuple(notes) for series, notes in entry["notes"].items()},
        kubernetes={series: (old, new) for series, (old, new) in entry["kubernetes"].items()},
    )


def released(version: str) -> str:
    """Return a chart's version if it belongs to a known series of any chart; else empty."""
    charts = (
        history
        for history in histories().values()
        if any(release.published for release in history.releases.values())
    )
    return version if any(history.position(version) for history in charts) else ""


def judge(software: str, was: str, now: str, used: Collection[str] | None = None) -> Transition:
    """Return what is known about a change of software from one version to another.

    Args:
        software: Name of the software in the table, such as `gpu-operator` or `kubernetes`.
        was: Version that runs.
        now: Declared version; a driver branch is a version, too.
        used: Paths of the chart's values that the running release sets. None: unknown, so all
            dropped values are named.
    """
    history = histories().get(software)
    if history is None:
        return Transition(software=software, title=software, was=was, now=now,
                          verdict=Verdict.UNKNOWN)  # fmt: skip
    verdict, path = _verdict(history, was, now)
    definitions, dropped, replaced = _changes(history, was, now, used or ())
    if used is not None:
        dropped = tuple(path for path in dropped if any(_is_under(p, path) for p in used))
    return Transition(
        software=software,
        title=history.title,
        was=was,
        now=now,
        verdict=verdict,
        path=path,
        source=history.source,
        read=history.read,
        definitions=definitions,
        dropped=dropped,
        replaced=replaced,
        notes=(
            *(_unread(history, was, now) if definitions or dropped or replaced else ()),
            *_notes(history, was, now),
        ),
    )


def _is_under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}.") or prefix.startswith(f"{path}.")


def _verdict(history: History, was: str, now: str) -> tuple[Verdict, tuple[str, ...]]:
    before, after = history.position(was), history.position(now)
    if not before or not after:
        return Verdict.UNKNOWN, ()
    old, new = history.series(was), history.series(now)
    # A declared branch or series means its newest version.
    if after < before and not (old == new and before[: len(after)] == after):
        border = history.position(history.no_way_back_to)[:1]
        if border and after[:1] <= border < before[:1]:
            return Verdict.NOT_BACK, ()
        back = {"any": Verdict.SUPPORTED, "no": Verdict.NOT_BACK, "unknown": Verdict.UNKNOWN}
        verdict = back[history.back]
        return verdict, (was, now) if verdict is Verdict.SUPPORTED else ()
    between = _chain(history, old, new)
    if between is None:
        return Verdict.UNKNOWN, ()
    newest = (history.newest(series) for series in between)
    path = (was, *(v if was.startswith("v") else v.removeprefix("v") for v in newest), now)
    return Verdict.BY_WAY_OF if between else Verdict.SUPPORTED, path


def _chain(history: History, old: str, new: str) -> tuple[str, ...] | None:
    """Return the series between two series on the shortest supported way; None without a way."""
    if old == new:
        return ()
    if not history.order and parse(old)[0] != parse(new)[0]:
        return None
    waiting: deque[tuple[str, ...]] = deque([(old,)])
    visited = {old}
    while waiting:
        way = waiting.popleft()
        for series in history.next_series(way[-1]):
            if series == new:
                return way[1:]
            is_between = bool(history.order) or parse(series) < parse(new)
            if series not in visited and is_between:
                visited.add(series)
                waiting.append((*way, series))
    return None


def _changes(
    history: History, was: str, now: str, used: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[tuple[str, str, str], ...]]:
    """Return definitions, values and parts that differ between two releases of a chart."""
    versions = list(history.releases)
    old, new = (_known(history, version) for version in (was, now))
    if not old or not new:
        return (), (), ()
    first, last = history.releases[old], history.releases[new]
    off = {part for part in last.optional if f"{part}.enabled" not in used}
    definitions = tuple(
        name.rpartition("/")[2]
        for name in sorted({*first.definitions, *last.definitions})
        if first.definitions.get(name) != last.definitions.get(name)
        and name.rpartition("/")[0] not in off
    )
    start, end = versions.index(old), versions.index(new)
    lost: dict[str, None] = {}
    for version in versions[start + 1 : end + 1]:
        release = history.releases[version]
        for path in release.values:
            lost.pop(path, None)
        lost.update(dict.fromkeys(release.dropped))
    for version in reversed(versions[end + 1 : start + 1]):
        release = history.releases[version]
        for path in release.dropped:
            lost.pop(path, None)
        lost.update(dict.fromkeys(release.values))
    replaced = tuple(
        (part, first.parts.get(part, ""), version)
        for part, version in last.parts.items()
        if first.parts.get(part, "") != version and part.partition(".")[0] not in off
    )
    return definitions, tuple(sorted(lost)), replaced


def _known(history: History, version: str) -> str:
    """Return the newest release up to a version, of its series, whose chart was read; or empty."""
    numbers, series = parse(version), history.series(version)
    earlier = [
        release_version
        for release_version, release in history.releases.items()
        if (release.parts or release.definitions)
        and history.series(release_version) == series
        and parse(release_version) <= numbers
    ]
    return earlier[-1] if earlier else ""


def _unread(history: History, was: str, now: str) -> Iterator[str]:
    for version in (was, now):
        chart_version = _known(history, version)
        if chart_version and parse(chart_version) != parse(version):
            yield f"the chart of {version} was not read: this is what {chart_version} has"


def _notes(history: History, was: str, now: str) -> Iterator[str]:
    before, after = history.position(was), history.position(now)
    yield from history.notes.get("*", ())
    if not before or not after:
        return
    for series, notes in history.notes.items():
        if series != "*" and before[0] < history.order.index(series) <= after[0]:
            yield from notes
