"""Find the line of a stack file that causes a fault or a violated rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from gpu_cluster.base import yaml_file
from gpu_cluster.change.document import ClusterChange, Document, Problem
from gpu_cluster.settings.nodes.node_range import written_out
from gpu_rules.check.lines import Location, location
from gpu_rules.faults import InputError

KEY = ("config", "gpu-cluster:cluster")
"""Keys that lead to the cluster's settings in a stack file."""
SECTIONS = {
    "node-scheduling": "pools",
    "gpu-platform": "platform",
    "driver-installer": "driverInstaller",
    "validation": "validation",
    "guardrails": "guardrails",
    "monitoring": "monitoring",
    "host-preparation": "hosts",
    "container-runtime": "runtime",
    "mig-layouts": "pools",
    "rollout": "rollout",
    "reboot": "reboot",
}
"""Section of the stack file, by the part of a resource name that a component chooses."""
_SAID = re.compile(r"\(line (\d{1,6})\)")
_THING = re.compile(r"\b(host|node|pool)s? ([A-Za-z0-9][A-Za-z0-9.-]{0,252})")
_PATH = re.compile(
    r"^\s*(?:\d+\. )?([a-z][A-Za-z]*(?:\[[^\]]{1,99}\]|\.[A-Za-z0-9]{1,99})*)(?= |:)"
)


@dataclass(frozen=True)
class StackFile:
    """Line numbers of the settings in a stack file.

    Attributes:
        name: Name of the file.
        lines: Line number of each value of the cluster's settings, by its path of keys.
        things: Line number of each host, node and pool, by kind and name.
        settings: The cluster's settings, with encrypted secrets; empty if they can't be read.
    """

    name: str = ""
    lines: dict[Location, int] = field(default_factory=dict)
    things: dict[tuple[str, str], int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> StackFile:
        """Return the line numbers of a stack file; empty for a file that can't be read."""
        try:
            document = yaml_file.read(path)
        except (InputError, OSError):
            return cls(name=path.name)
        lines = {at[2:]: line for at, line in document.lines.items() if at[:2] == KEY}
        value = document.value
        for step in KEY:
            value = value.get(step) if isinstance(value, dict) else None
        settings = value if isinstance(value, dict) else {}
        return cls(path.name, lines, dict(_declared_lines(value, lines)), settings)

    def located(self, problem: Problem, resource: str = "") -> Problem:
        """Return a problem with the stack file's name and, if known, the line that causes it.

        Args:
            problem: A fault or a violated rule.
            resource: Name of the resource that the problem is about. Empty: none.
        """
        line = self._line(problem.text, resource)
        if line is None:
            return problem
        return problem.model_copy(update={"file": self.name, "line": line})

    def _line(self, text: str, resource: str) -> int | None:
        if quoted_line := _SAID.search(text):
            return int(quoted_line[1])
        for kind, name in _THING.findall(text):
            if (kind, name) in self.things:
                return self.things[(kind, name)]
        path = _PATH.match(text)
        if path and (line := self._nearest(location(path[1]))):
            return line
        section_word = next(
            (section_word for section_word in SECTIONS if section_word in resource), ""
        )
        if section_word and (line := self.lines.get((SECTIONS[section_word],))):
            return line
        return self.lines.get(("platform",)) if section_word else None

    def _nearest(self, at: Location) -> int | None:
        for end in range(len(at), 0, -1):
            if at[:end] in self.lines:
                return self.lines[at[:end]]
        return None


def _declared_lines(
    cluster: Any, lines: dict[Location, int]
) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the line number of each host, node and pool that a stack file declares."""
    if not isinstance(cluster, dict):
        return
    for section, kind in (("pools", "pool"), ("hosts", "host")):
        items = cluster.get(section)
        for number, item in enumerate(items if isinstance(items, list) else ()):
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str):
                continue
            line = lines.get((section, number, "name"), lines.get((section, number), 1))
            yield (kind, name), line
            for node in _declared_nodes(item.get("nodes")) if kind == "pool" else ():
                yield ("node", node), lines.get((section, number, "nodes"), line)


def _declared_nodes(declared: Any) -> Iterable[str]:
    if not isinstance(declared, list):
        return ()
    try:
        return written_out(tuple(declared))
    except (ValueError, TypeError, PydanticCustomError):
        return ()


def located(document: Document, file: StackFile) -> Document:
    """Return a document with the stack file's line numbers added to its faults and warnings."""

    def all_of(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(problem if problem.line else file.located(problem) for problem in problems)

    def cluster(change: ClusterChange) -> ClusterChange:
        both = {"faults": all_of(change.faults), "warnings": all_of(change.warnings)}
        return change.model_copy(update=both)

    return document.model_copy(
        update={
            "clusters": tuple(map(cluster, document.clusters)),
            "faults": all_of(document.faults),
        }
    )
