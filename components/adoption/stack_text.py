"""Replace sections of `gpu-cluster:cluster` in a stack file's text; keep other comments.

A section that changes loses the comments inside it. All functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from components.base.yaml_file import dump, node_of, parse
from components.loading.stack_file import KEY
from policies.faults import InputError

# A line as PyYAML counts lines; `str.splitlines` counts more.
_BREAKS = "\n\r\x85\u2028\u2029"
_LINE = re.compile(f"[^{_BREAKS}]*(?:\r\n|[{_BREAKS}])|[^{_BREAKS}]+")

HEAD = """\
# Written from the running cluster. Every value can be changed; `make preview` shows what follows.
config:
  pulumi:disable-default-providers:
    - kubernetes
"""


def new_text(settings: Mapping[str, Any]) -> str:
    """Return the text of a new stack file with the given settings."""
    return HEAD + _indented(dump({KEY: dict(settings)}), 2)


def with_sections(text: str, sections: Mapping[str, Any]) -> str:
    """Return a stack file's text with the given sections; a section that is None is removed.

    A section whose value is unchanged keeps its text and comments.

    Raises:
        InputError: The text is no stack file with a block mapping `gpu-cluster:cluster`.
    """
    for key, value in sections.items():
        text = _with_section(text, key, value)
    return text


def settings_of(text: str) -> Mapping[str, Any]:
    """Return the content of `gpu-cluster:cluster`; empty if the text has no such mapping.

    Raises:
        InputError: The text is no valid YAML.
    """
    document = parse(text).value
    settings: Mapping[str, Any] = document["config"][KEY] if _mapping(text) else {}
    return settings


def _with_section(text: str, key: str, value: Any) -> str:
    settings = settings_of(text)
    if key in settings and value is not None and settings[key] == value:
        return text
    if key not in settings and value is None:
        return text
    mapping = _mapping(text)
    if mapping is None or not mapping.value or mapping.flow_style:
        wanted = f"{KEY} as an indented mapping below config"
        raise InputError("none", wanted, "write it as Pulumi.dev.yaml does")
    lines = _LINE.findall(text)
    starts = [name.start_mark.line for name, _ in mapping.value]
    names = [name.value for name, _ in mapping.value]
    index = names.index(key) if key in names else len(names) - 1
    start, end = _region(lines, starts, index, mapping)
    if key not in names:
        start = end
    column = mapping.value[0][0].start_mark.column
    new = "" if value is None else _indented(dump({key: value}), column)
    if start and not lines[start - 1].endswith("\n"):
        lines[start - 1] += "\n"
    return "".join([*lines[:start], new, *lines[end:]])


def _mapping(text: str) -> yaml.MappingNode | None:
    """Return the node of `gpu-cluster:cluster`; None if the text has no such mapping."""
    node: yaml.Node | None = node_of(text)
    for name in ("config", KEY):
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node if isinstance(node, yaml.MappingNode) else None


def _region(
    lines: Sequence[str], starts: Sequence[int], index: int, mapping: yaml.MappingNode
) -> tuple[int, int]:
    """Return the line at which a section starts, and the line after its end.

    Comments and blank lines in front of the next section belong to that section.
    """
    if index + 1 < len(starts):
        end = starts[index + 1]
    else:
        at_the_end = mapping.end_mark.index >= sum(map(len, lines))
        end = len(lines) if at_the_end else mapping.end_mark.line
    while end > starts[index] + 1 and _is_blank(lines[end - 1]):
        end -= 1
    return starts[index], end


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _indented(text: str, column: int) -> str:
    return "".join(f"{' ' * column}{line}" for line in text.splitlines(keepends=True))
