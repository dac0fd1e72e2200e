"""Replace sections of `gpu-cluster:cluster` in a stack file's text.

A section that changes loses the comments inside it; all other comments stay. Pure functions.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from gpu_cluster.base.yaml_file import dump, node_of, parse
from gpu_cluster.loading.stack_file import KEY
from gpu_rules.faults import InputError, Location
from gpu_rules.printable import printable

# Line breaks as PyYAML counts them; `str.splitlines` also splits at other characters.
_BREAKS = "\n\r\x85\u2028\u2029"
_LINE = re.compile(f"[^{_BREAKS}]*(?:\r\n|[{_BREAKS}])|[^{_BREAKS}]+")

SCHEMA = "docs/stack.schema.json"
"""Path of the JSON schema of stack files, from the folder of the stack files."""
HEAD = f"""\
# yaml-language-server: $schema={SCHEMA}
# {{}} Every value can be changed; `gpu-cluster preview` shows the effect.
config:
  pulumi:disable-default-providers:
    - kubernetes
"""
FROM_CLUSTER = "Written from the running cluster."
_WIDTH = 100
_COMMENT = 600
"""Maximum number of characters of a comment that contains text from outside."""


def new_text(
    settings: Mapping[str, Any],
    origin: str = FROM_CLUSTER,
    comments: Mapping[Location, Sequence[str]] | None = None,
) -> str:
    """Return the text of a new stack file.

    Args:
        settings: Content of `gpu-cluster:cluster`.
        origin: Sentence that names the source of the settings.
        comments: Comments above values, by the location of the value in the settings.
    """
    body = _indent_text(dump({KEY: dict(settings)}), 2)
    return HEAD.format(origin) + _insert_comments(body, comments or {})


def _insert_comments(body: str, comments: Mapping[Location, Sequence[str]]) -> str:
    """Return a YAML text with comments inserted above the lines of the given values."""
    lines = body.splitlines(keepends=True)
    places = parse(body).lines
    above: dict[int, list[str]] = {}
    for at, texts in comments.items():
        if (place := places.get((KEY, *at))) is not None:
            above.setdefault(place, []).extend(texts)
    written: list[str] = []
    for number, line in enumerate(lines, start=1):
        indent = line[: len(line) - len(line.lstrip())]
        written += [
            comment_line for text in above.get(number, ()) for comment_line in comment(text, indent)
        ]
        written.append(line)
    return "".join(written)


def comment(text: str, indent: str) -> list[str]:
    """Return a text as YAML comment lines; line breaks in the text can't end the comment."""
    width = _WIDTH - len(indent) - 2
    wrapped = textwrap.wrap(printable(text, _COMMENT), width, break_on_hyphens=False)
    return [f"{indent}# {line}\n" for line in wrapped]


def commented_hosts(
    hosts: Sequence[tuple[Mapping[str, Any], Sequence[str]]], reason: str, *, has_hosts: bool
) -> str:
    """Return hosts as comments at the end of a stack file.

    Args:
        hosts: Settings of each host, and notes about the host.
        reason: Sentence above the hosts, which explains why they are only comments.
        has_hosts: Whether the file ends with a list of hosts already.
    """
    if not hosts:
        return ""
    lines = comment(reason, "    ")
    if not has_hosts:
        lines.append("    # hosts:\n")
    for host, notes in hosts:
        lines += [f"    # {line}" for note in notes for line in comment(note, "")]
        lines += [f"    # {line}" for line in dump([dict(host)]).splitlines(keepends=True)]
    return "".join(lines)


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
    settings: Mapping[str, Any] = document["config"][KEY] if _cluster_mapping(text) else {}
    return settings


def _with_section(text: str, key: str, value: Any) -> str:
    settings = settings_of(text)
    if key in settings and value is not None and settings[key] == value:
        return text
    if key not in settings and value is None:
        return text
    mapping = _cluster_mapping(text)
    if mapping is None or not mapping.value or mapping.flow_style:
        wanted = f"{KEY} as an indented mapping below config"
        raise InputError("no such mapping", wanted, "write the mapping as Pulumi.dev.yaml does")
    lines = _LINE.findall(text)
    starts = [name.start_mark.line for name, _ in mapping.value]
    names = [name.value for name, _ in mapping.value]
    index = names.index(key) if key in names else len(names) - 1
    start, end = _section_lines(lines, starts, index, mapping)
    if key not in names:
        start = end
    column = mapping.value[0][0].start_mark.column
    new = "" if value is None else _indent_text(dump({key: value}), column)
    if start and not lines[start - 1].endswith("\n"):
        lines[start - 1] += "\n"
    return "".join([*lines[:start], new, *lines[end:]])


def _cluster_mapping(text: str) -> yaml.MappingNode | None:
    """Return the YAML node of `gpu-cluster:cluster`; None if the text has no such mapping."""
    node: yaml.Node | None = node_of(text)
    for name in ("config", KEY):
        if not isinstance(node, yaml.MappingNode):
            return None
        node = next((value for key, value in node.value if key.value == name), None)
    return node if isinstance(node, yaml.MappingNode) else None


def _section_lines(
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


def _indent_text(text: str, column: int) -> str:
    return "".join(f"{' ' * column}{line}" for line in text.splitlines(keepends=True))
