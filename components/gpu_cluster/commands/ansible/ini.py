"""Read an inventory in Ansible's INI form.

The rules are those of Ansible's documentation ("How to build your inventory", and the page of the
plugin ansible.builtin.ini): a host line holds a name or a range and `key=value` pairs, split as a
shell splits words; values are Python literals, or else texts; a line of a section `[group:vars]`
sets one variable, whose value continues to the end of the line.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from typing import Any

from gpu_cluster.commands.ansible.inventory import Builder, Inventory
from gpu_cluster.settings.nodes.node_range import NODE_LIMIT
from gpu_rules.faults import InputError, PartError, show

_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_GROUP = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
# A host name with a port, as in `gpu-1:2222`. A text with several colons is an IPv6 address.
_WITH_PORT = re.compile(r"((?:[^:\[\]]|\[[^\[\]]*\])+):([0-9]{1,5})")
# Maximum length of a value that is parsed as a Python literal.
_LITERAL = 4096
# Maximum length of the line of a host: the standard library splits it in quadratic time.
_LONGEST_LINE = 16_384
_UNGROUPED = "ungrouped"
_EXAMPLE = (
    "write a group as `[gpu]`, and below it each host as `gpu-1 ansible_host=192.0.2.1`, or name a "
    "smaller inventory"
)


class _Reader:
    """Parser of an INI inventory, line by line; it remembers the current section."""

    def __init__(self) -> None:
        self.found = Builder(NODE_LIMIT)
        self.group = _UNGROUPED
        self.kind = "hosts"

    def section(self, name: str, kind: str | None) -> None:
        """Begin the section `[name]` or `[name:kind]`, and add its group."""
        if kind not in (None, "hosts", "vars", "children"):
            raise PartError(f"a section of the unknown kind {show(kind)}")
        self.group, self.kind = name, kind or "hosts"
        self.found.group(name)

    def line(self, line: str) -> None:
        """Read a line inside the current section."""
        if self.kind == "hosts":
            self._host(line)
        elif self.kind == "vars":
            self._variable(line)
        else:
            self._child(line)

    def _host(self, line: str) -> None:
        words = _split_words(line)
        pattern, variables = words[0], dict[str, Any]()
        if match := _WITH_PORT.fullmatch(pattern):
            pattern = match[1]
            variables["ansible_port"] = int(match[2])
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals:
                raise PartError(f"{show(word)}, but the line of a host has key=value")
            variables[key] = _parse_value(value)
        self.found.add(self.group, pattern, variables)

    def _variable(self, line: str) -> None:
        key, equals, value = line.partition("=")
        if not equals:
            raise PartError(f"{show(line)}, but a section of variables has lines key=value")
        self.found.set_group(self.group, {key.strip(): _parse_value(value.strip())})

    def _child(self, line: str) -> None:
        match = _GROUP.fullmatch(line)
        if match is None:
            raise PartError(
                f"{show(line)}, but each line of a section `:children` is the name of a group"
            )
        self.found.child(self.group, match[1])


def parse(text: str) -> Inventory:
    """Return the inventory that an INI text declares.

    Raises:
        InputError: A line is invalid; the error contains the line's number.
    """
    reader = _Reader()
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        try:
            if match := _SECTION.fullmatch(line):
                reader.section(match[1], match[2])
            elif line.startswith("[") and line.endswith("]"):
                raise PartError(
                    f"{show(line)}, a section whose name has a blank or another invalid character"
                )
            else:
                reader.line(line)
        except ValueError as error:
            raise InputError(
                str(error), "an inventory in Ansible's INI form", _EXAMPLE, number
            ) from None
    try:
        return reader.found.inventory
    except ValueError as error:
        raise InputError(str(error), "an inventory", "name a smaller one") from None


def _split_words(line: str) -> list[str]:
    if len(line) > _LONGEST_LINE:
        raise PartError(f"{show(line)}, a line of a host with more than {_LONGEST_LINE} characters")
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise PartError(f"{show(line)}: {str(error).lower()}") from None
    if not words:
        raise PartError(f"{show(line)}, which names no host")
    return words


def _parse_value(written: str) -> Any:
    if len(written) > _LITERAL:
        return written
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return written
    return value if isinstance(value, str | int | float | list | tuple | dict) else written
