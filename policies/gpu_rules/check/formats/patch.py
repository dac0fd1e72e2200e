"""The `patch` output format: a unified diff that removes what breaks some rules.

Only rules whose cure is to remove a field have a patch, only in files as they were written (not in
charts and kustomizations), and only where the field has lines of its own. `git apply` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from ...faults import InputError
from ...printable import printable
from ..files import STDIN_NAME
from ..lines import location
from ..parse import LOADER
from ..report import Report
from ..result import Found
from ..stream import StreamPart, decode, split

REMOVED: Final = frozenset(
    {"GPU002", "GPU012", "GPU017", "GPU020", "GPU035", "GPU063", "GPU064", "GPU067", "GPU068"}
    | {"GPU083"}
)
"""Rules whose cure is to remove the field that a violation names."""
_CONTEXT: Final = 3
"""Number of lines around a removed line that a hunk shows."""
NO_NEWLINE: Final = "\n\\ No newline at end of file\n"
Node = tuple[yaml.Node, yaml.Node]
"""A value of a document, after its key; an item of a list comes after itself."""


def patch(report: Report) -> str:
    """Return the diff of all violations of a report that have a patch; empty if none has."""
    files: dict[str, list[Found]] = {}
    for found in report.found:
        is_open = not (found.exemption or found.known or found.rendered)
        if found.rule in REMOVED and is_open and printable(found.file) == found.file != STDIN_NAME:
            files.setdefault(found.file, []).append(found)
    return "".join(line for file, found in files.items() for line in _changes(file, found))


def _changes(file: str, violations: Sequence[Found]) -> Iterator[str]:
    """Yield the lines of the diff of one file."""
    try:
        raw = Path(file).read_bytes()
        written = decode(raw)
    except (OSError, InputError):
        return
    # A diff shows lines of the file as they are, so nothing in them may act on a terminal or a CI.
    lines = written.replace("\r\n", "\n").split("\n")
    if written.encode() != raw or any(printable(line) != line for line in lines):
        return
    parts = {part.number: part for part in split(written)}
    places: dict[int, set[str]] = {}
    for found in violations:
        places.setdefault(found.document, set()).add(found.path)
    removed = {
        line
        for number, paths in places.items()
        if (part := parts.get(number))
        for line in _removed(part, paths)
    }
    if removed:
        name = file.lstrip("/")
        yield f"--- a/{name}\n+++ b/{name}\n"
        yield from hunks(re.findall(r"[^\n]*\n|[^\n]+", written), sorted(removed))


def hunks(lines: Sequence[str], removed: Sequence[int]) -> Iterator[str]:
    """Yield the lines of the hunks of a unified diff that only removes lines.

    difflib compares all lines, in quadratic time if many are equal.

    Args:
        lines: Lines of the file.
        removed: Numbers of the removed lines, counted from 1, in their order.
    """
    groups: list[list[int]] = []
    for number in removed:
        if groups and number - groups[-1][-1] <= 2 * _CONTEXT + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    before = 0
    for hunk in groups:
        start, end = max(hunk[0] - 1 - _CONTEXT, 0), min(hunk[-1] + _CONTEXT, len(lines))
        left = end - start - len(hunk)
        yield f"@@ -{_range(start, end - start)} +{_range(start - before, left)} @@\n"
        gone = set(hunk)
        for number, line in enumerate(lines[start:end], start + 1):
            signed = f"{'-' if number in gone else ' '}{line}"
            yield signed if line.endswith("\n") else signed + NO_NEWLINE
        before += len(hunk)


def _range(start: int, length: int) -> str:
    """Return a range of lines as a diff writes it; an empty range is after its line."""
    if length == 1:
        return f"{start + 1}"
    return f"{start + bool(length)},{length}"


def _removed(part: StreamPart, paths: set[str]) -> Iterator[int]:
    """Yield the numbers of the lines of a file that are removed with the fields at some paths."""
    try:
        (root,) = yaml.compose_all(part.text, Loader=LOADER)
    except (yaml.YAMLError, ValueError):
        return
    lines = part.text.split("\n")
    entries: dict[int, dict[str, list[Node]]] = {}
    for path in paths:
        nodes = _nodes(root, path, entries)
        if nodes and (own := _lines(nodes, lines)):
            yield from range(part.line + own[0], part.line + own[1])


def _nodes(root: yaml.Node, path: str, entries: dict[int, dict[str, list[Node]]]) -> list[Node]:
    """Return the document and all values on the way to a path; empty if the path leads nowhere.

    Args:
        root: The document.
        path: Path of a field.
        entries: The entries of mappings by their keys, kept for further paths of the document.
    """
    nodes: list[Node] = [(root, root)]
    for step in location(path):
        value = nodes[-1][1]
        if isinstance(value, yaml.MappingNode):
            if id(value) not in entries:
                by_key = entries[id(value)] = {}
                for pair in value.value:
                    if isinstance(pair[0], yaml.ScalarNode):
                        by_key.setdefault(pair[0].value, []).append(pair)
            found = entries[id(value)].get(str(step), [])
        elif isinstance(value, yaml.SequenceNode) and isinstance(step, int):
            found = [(item, item) for item in value.value[step : step + 1]]
        else:
            found = []
        if len(found) != 1:
            return []
        nodes += found
    return nodes


def _lines(nodes: Sequence[Node], lines: Sequence[str]) -> tuple[int, int] | None:
    """Return the first line of the last node and the line after it, if only the node is on them.

    What has no other value than this is removed with it.
    """
    kept = list(nodes)
    while len(kept) > 2 and len(kept[-2][1].value) == 1:
        kept.pop()
    if any(isinstance(above, yaml.CollectionNode) and above.flow_style for _, above in kept[:-1]):
        return None
    key, value = kept[-1]
    start = key.start_mark
    before = lines[start.line][: start.column]
    is_alone = not before.strip(" -" if key is value else " ")
    return (start.line, _line_after(key, value)) if is_alone else None


def _line_after(key: yaml.Node, value: yaml.Node) -> int:
    """Return the line after a value; PyYAML ends a block where the next token begins."""
    while isinstance(value, yaml.CollectionNode) and not value.flow_style:
        last = value.value[-1]
        key, value = last if isinstance(last, tuple) else (last, last)
    is_empty = isinstance(value, yaml.ScalarNode) and not (value.value or value.style)
    end = key.end_mark if is_empty else value.end_mark
    return int(end.line if end.column == 0 else end.line + 1)
