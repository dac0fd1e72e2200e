"""Compare the policy checker's verdicts on public repositories with a hand-written table.

Command: `GPU_REPOSITORIES=FOLDER python -m tests.proofs.rules.world`. The folder has a checkout of
each repository, as `OWNER+NAME` or `OWNER/NAME`. The table `world.tsv` has a row for each object
that names GPUs or breaks a rule: repository, commit, path, object, what is expected, and, if the
first expectation was wrong, what it was, and why an object that others run is refused for its host
paths, privileges, capabilities or host namespaces: a sentence `GPU036: …` for each such rule
(`EXPLAINED`), without which the proof fails. Expected is the ids of all rules that the object
breaks, `clean`, `unjudged`, `unreadable` if the API server could not decode the file either (the
object may then be empty, for any document of the file), or `none` if the object requests no GPUs.
All manifests of a repository are one stack, as for `gpu-rules check FOLDER`.

A violation that the table doesn't expect is a wrong alarm, and so is one of an object that it
doesn't have.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Final

from gpu_rules.check import files
from gpu_rules.check.document import Source
from gpu_rules.check.ignored import IgnoredPaths
from gpu_rules.check.pool import judge_all
from gpu_rules.check.problem import Unjudged
from gpu_rules.check.rendered import sources
from gpu_rules.check.report import Report
from gpu_rules.check.result import Found, Judged
from gpu_rules.check.together import CheckedStack, with_claims
from gpu_rules.rules import Context, Severity, Subject
from gpu_rules.rules.claims import requests
from gpu_rules.rules.gpus import Gpus, gpus_of
from gpu_rules.rules.pod_claims import gpu_claims
from gpu_rules.rules.pod_spec import Pod
from gpu_rules.rules.resource_names import is_gpu, of_gpus, sounds_like_gpu
from tests.proofs.rules import results

TABLE: Final = Path(__file__).with_name("world.tsv")
CLEAN, UNJUDGED, UNREADABLE = "clean", "unjudged", "unreadable"
NONE: Final = "none"
LEAST_OBJECTS = 1000
"""Smallest number of objects that must be compared, so that an empty folder proves nothing."""
MOST_LINES: Final = 0.15
"""Share of all lines that one rule may make."""
EXPLAINED: Final = ("GPU022", "GPU036", "GPU066", "GPU067")
"""Rules that refuse privileges, host paths and host namespaces, which others may need.

GPU078 and GPU079 only advise about them.
"""
_NO_GPUS: Final = ("habana.ai/",)
"""Domains of accelerators that are no GPUs, although GPU032 and GPU063 take them for such."""


@dataclass(frozen=True)
class Row:
    """One row of the table; the fields are its columns."""

    repository: str
    commit: str
    path: str
    object: str
    expected: str
    corrected: str
    reason: str


def unexplained(rows: Iterable[Row]) -> list[tuple[Row, str]]:
    """Return the rows and rules that refuse an object without a reason in the table."""
    return [
        (row, rule)
        for row in rows
        for rule in EXPLAINED
        if rule in row.expected.split(" ") and not _reason(row, rule)
    ]


def _reason(row: Row, rule: str) -> str:
    """Return the reason that a row has for a rule; empty if it has none."""
    reason = re.search(rf"(?:^|\. ){rule}: ([\w/].*?)(?=\. GPU[0-9]{{3}}: |$)", row.reason)
    return reason[1] if reason else ""


@dataclass
class Verdicts:
    """Verdicts of the policy checker on one repository.

    Attributes:
        rules: Ids of the broken rules by path and object.
        labels: Names of objects in the table by their names in violations.
        asking: Whether an object requests GPUs, by path and name.
        unjudged: Paths of files and folders of charts that the checker reports as not judged.
        unreadable: Paths of files with a document that the checker can't read.
        alarms: Path, object, rule and severity of each violation.
        lines: Number of violations that the text output lists, by rule.
    """

    rules: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    asking: dict[tuple[str, str], bool] = field(default_factory=dict)
    unjudged: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    alarms: set[tuple[str, str, str, Severity]] = field(default_factory=set)
    lines: Counter[str] = field(default_factory=Counter)

    def add(self, found: Found, path: str) -> None:
        """Add a violation of an object in a file, by the name that the table has for the object."""
        key = (path, self.labels.get(found.subject, found.subject))
        self.rules.setdefault(key, set()).add(found.rule)
        self.alarms.add((*key, found.rule, found.severity))

    def of(self, row: Row) -> str:
        """Return the verdict on a row's object, in the notation of the table."""
        key = (row.path, row.object)
        if rules := self.rules.get(key):
            return " ".join(sorted(rules))
        if row.path in self.unjudged:
            return UNJUDGED
        if self.asking.get(key):
            return CLEAN
        if self.unjudged.intersection(map(str, PurePath(row.path).parents)):
            return UNJUDGED
        unread = row.path in self.unreadable and key not in self.asking
        return UNREADABLE if unread else NONE


def read_table(path: Path = TABLE) -> list[Row]:
    """Return the rows of the table."""
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(**row) for row in csv.DictReader(file, delimiter="\t")]


def judge(folder: Path) -> Verdicts:
    """Return the checker's verdicts on a repository, without settings and without rendering.

    Charts are not rendered, because rendering depends on the programs of the machine.
    """
    verdicts, report = Verdicts(), Report()
    names = (
        name for name in files.find([str(folder)], IgnoredPaths()) if isinstance(name, files.Name)
    )
    entries = list(sources(names, render=False))
    for entry in entries:
        if isinstance(entry, Unjudged):
            verdicts.unjudged.add(os.path.relpath(entry.file, folder))
    given = [entry for entry in entries if isinstance(entry, Source)]
    context = with_claims(Context(), given)
    stack = CheckedStack(context, given)
    for judged in judge_all(given, context, keep=True):
        report.add([result := stack.add(judged)])
        _add(verdicts, result, os.path.relpath(judged.file, folder), context)
    for found in stack.judge():
        report.add([found])
        verdicts.add(found, os.path.relpath(found.file, folder))
    verdicts.lines = Counter(found.rule for found, _ in report.listed())
    return verdicts


def _add(verdicts: Verdicts, judged: Judged, path: str, context: Context) -> None:
    verdicts.unjudged |= {path for _ in judged.unjudged}
    verdicts.unreadable |= {path for _ in judged.problems}
    # An object with a field of a wrong type can't be decoded.
    for item in () if judged.problems else judged.objects:
        for subject in Subject.all_of(item.manifest, context.namespace):
            name = verdicts.labels[subject.label] = f"{subject.kind} {subject.name}".strip()
            asks = subject.pod is not None and _asks(subject, subject.pod, context)
            asks = asks or any(of_gpus(one.device_class, context) for one in requests(subject))
            verdicts.asking[path, name] = asks or verdicts.asking.get((path, name), False)
    for found in judged.found:
        verdicts.add(found, path)


def _asks(subject: Subject, pod: Pod, context: Context) -> bool:
    """Return whether a pod requests what may be a GPU; a claim for other devices is none."""
    claims = any(gpu_claims(subject, context))
    spec = {key: value for key, value in pod.spec.items() if key != "resourceClaims"}
    named = {name for container in pod.containers for name in container.resource_names}
    if named and not any(_is_of_gpus(name, context) for name in named):
        return claims
    unclaimed = replace(subject, pod=replace(pod, spec=spec))
    return claims or gpus_of(unclaimed, context) is not Gpus.WITHOUT


def _is_of_gpus(name: str, context: Context) -> bool:
    """Return whether a resource may be a GPU; GPU032 takes further accelerators for GPUs, too."""
    return (is_gpu(name, context) or sounds_like_gpu(name)) and not name.startswith(_NO_GPUS)


@dataclass(frozen=True)
class Repository:
    """What the checker said about one repository, beside what the table expects.

    Attributes:
        rows: Rows of the table, each with the checker's verdict.
        objects: Number of objects that request GPUs.
        wrong: Violations that the table does not expect.
        unreadable: Files that the checker could not read, without a row that says why.
        lines: Number of violations that the text output lists, by rule.
    """

    name: str
    rows: list[tuple[Row, str]]
    objects: int
    wrong: list[tuple[str, str, str, Severity]]
    unreadable: list[str]
    lines: Counter[str]


def compare(world: Path, rows: Iterable[Row]) -> Iterator[Repository]:
    """Yield each repository of the table that is in the folder, compared with its rows."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.repository, []).append(row)
    for name, own in by_name.items():
        places = (world / name.replace("/", "+"), world / name)
        if folder := next((place for place in places if place.is_dir()), None):
            yield _compared(name, judge(folder), own)


def _compared(name: str, verdicts: Verdicts, rows: list[Row]) -> Repository:
    expected = {(row.path, row.object, rule) for row in rows for rule in row.expected.split(" ")}
    explained = {row.path for row in rows if row.expected == UNREADABLE}
    return Repository(
        name=name,
        rows=[(row, verdicts.of(row)) for row in rows if row.object],
        objects=sum(verdicts.asking.values()),
        wrong=sorted(alarm for alarm in verdicts.alarms if alarm[:3] not in expected),
        unreadable=sorted(verdicts.unreadable - explained),
        lines=verdicts.lines,
    )


def summary(repositories: Sequence[Repository]) -> dict[str, Any]:
    """Return the figures of all repositories, for the last line of the proof."""
    lines = sum((each.lines for each in repositories), Counter[str]())
    rule, most = max(lines.items(), key=lambda line: line[1], default=("", 0))
    wrong = [alarm for each in repositories for alarm in each.wrong]
    return {
        "repositories": len(repositories),
        "unreadable": sum(len(each.unreadable) for each in repositories),
        "objects": sum(each.objects for each in repositories),
        "wrong": len(wrong),
        "mandatory": sum(alarm[3] is Severity.MANDATORY for alarm in wrong),
        "most": [rule, most, sum(lines.values())],
    }


def main() -> int:
    """Compare all table rows, print what differs, and return the exit code."""
    world = os.environ.get("GPU_REPOSITORIES", "")
    rows = read_table()
    repositories = list(compare(Path(world), rows)) if world else []
    judged = [pair for each in repositories for pair in each.rows]
    for row, verdict in judged:
        if verdict != row.expected:
            print(f"{row.repository} {row.path} {row.object}: {verdict}; expected: {row.expected}")
    for each in repositories:
        for alarm in each.wrong:
            print(f"{each.name} wrong alarm: {' '.join(alarm)}")
        for path in each.unreadable:
            print(f"{each.name} {path}: unreadable")
    without_reason = unexplained(rows)
    for row, rule in without_reason:
        print(f"{row.repository} {row.path} {row.object}: no reason for {rule}")
    figures = summary(repositories)
    results.store("repositories", figures)
    if not world:
        print("world: GPU_REPOSITORIES names no folder of checkouts")
        return 1 if without_reason else 0
    same = sum(verdict == row.expected for row, verdict in judged)
    corrected = sum(bool(row.corrected) for row in rows)
    print(f"world {same} of {len(judged)} objects as expected ({corrected} corrected)")
    rule, most, lines = figures["most"]
    print(f"world: {rule} makes {most} of {lines} lines, {figures['objects']} objects with GPUs")
    results.store("world", {"agree": same, "cases": len(judged), "corrected": corrected})
    if missing := sum(bool(row.object) for row in rows) - len(judged):
        print(f"world: {missing} objects are of repositories that the folder lacks")
    if few := len(judged) < LEAST_OBJECTS:
        print(f"world: {len(judged)} objects; at least {LEAST_OBJECTS} are compared")
    if one_rule := most > MOST_LINES * lines:
        print(f"world: {rule} makes more than {MOST_LINES:.0%} of the lines")
    faults = figures["wrong"] + figures["unreadable"] + one_rule + few + len(without_reason)
    return 0 if same == len(judged) and not faults else 1


if __name__ == "__main__":
    sys.exit(main())
