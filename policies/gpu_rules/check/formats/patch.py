"""The `patch` output format: a unified diff that removes what breaks some rules.

Only rules whose cure is to remove a field have a patch, only in files as they were written (not in
charts and kustomizations), and only where the field has lines of its own. `git apply` reads it.
"""

from __future__ import annotations

import difflib
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
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"
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
    before = re.findall(r"[^\n]*\n|[^\n]+", written)
    after = [line for number, line in enumerate(before, 1) if number not in removed]
    name = file.lstrip("/")
    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else line + _NO_NEWLINE


def _removed(part: StreamPart, paths: set[str]) -> Iterator[int]:
    """Yield the numbers of the lines of a file that are removed with the fields at some paths."""
    try:
        (root,) = yaml.compose_all(part.text, Loader=LOADER)
    except (yaml.YAMLError, ValueError):
        return
    lines = part.text.split("\n")
    for path in paths:
        nodes = _nodes(root, path)
        if nodes and (own := _lines(nodes, lines)):
            yield from range(part.line + own[0], part.line + own[1])


def _nodes(root: yaml.Node, path: str) -> list[Node]:
    """Return the document and all values on the way to a path; empty if the path leads nowhere."""
    nodes: list[Node] = [(root, root)]
    for step in location(path):
        value = nodes[-1][1]
        if isinstance(value, yaml.MappingNode):
            entries = [pair for pair in value.value if pair[0].value == str(step)]
        elif isinstance(value, yaml.SequenceNode) and isinstance(step, int):
            entries = [(item, item) for item in value.value[step : step + 1]]
        else:
            entries = []
        if len(entries) != 1:
            return []
        nodes += entries
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
