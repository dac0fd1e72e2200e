"""Change single settings in the text of a stack file, and keep the rest of the text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from gpu_cluster.base.yaml_file import node_of
from gpu_cluster.charts.extra_values import plain
from gpu_cluster.commands.adoption.stack_text import settings_of
from gpu_cluster.loading.stack_file import KEY
from gpu_rules.faults import Fault, FaultError


@dataclass(frozen=True)
class Edit:
    """A setting and its new value, a text or a truth value."""

    path: tuple[str, ...]
    value: str | bool

    @property
    def text(self) -> str:
        """Return the value in YAML, in quotes if it would be read as something else."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        is_plain = yaml.safe_load(self.value) == self.value
        return self.value if is_plain else f'"{self.value}"'

    def __str__(self) -> str:
        """Return the edit as `path: value`."""
        return f"{'.'.join(self.path)}: {self.text}"


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a stack file's text with other values of settings.

    Raises:
        FaultError: The text can't be changed without changing something else.
    """
    changed = text
    expected: Any = plain(settings_of(text))
    for edit in edits:
        changed = _edited(changed, edit)
        below = expected
        for key in edit.path[:-1]:
            below = below.setdefault(key, {})
        below[edit.path[-1]] = edit.value
    if settings_of(changed) != expected:
        raise FaultError(
            Fault(
                "stack file",
                "a form in which settings can't be edited",
                "a mapping for each section",
                "write the printed edits by hand",
            )
        )
    return changed


def _edited(text: str, edit: Edit) -> str:
    node: yaml.Node | None = node_of(text)
    for name in ("config", KEY):
        node = _value(node, name)
    missing = list(edit.path)
    while missing and (inner := _value(node, missing[0])) is not None:
        node = inner
        missing.pop(0)
    if not missing and node is not None:
        return f"{text[: node.start_mark.index]}{edit.text}{text[node.end_mark.index :]}"
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return text
    nested = edit.text
    for key in reversed(missing[1:]):
        nested = f"{{{key}: {nested}}}"
    new = f"{missing[0]}: {nested}"
    first = node.value[0][0].start_mark
    if node.flow_style:
        return f"{text[: first.index]}{new}, {text[first.index :]}"
    return f"{text[: first.index]}{new}\n{' ' * first.column}{text[first.index :]}"


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)
