"""Groups, hosts and variables of an inventory; pure data and functions.

The order in which variables override each other is Ansible's (docs.ansible.com, "Using variables",
"Understanding variable precedence", steps 3 to 9).
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from gpu_cluster.base.yaml_file import Tagged
from gpu_rules.faults import PartError

Variables = Mapping[str, Any]
ALL = "all"
_DEPTH = 20
"""Maximum number of references that one template follows."""
_RANGES = 8
"""Maximum number of ranges in one name."""
WRITTEN_OUT = 500_000
"""Maximum number of names and variables that ranges stand for: a short line may stand for many."""
MEMBERSHIPS = 100_000
"""Maximum number of groups of all hosts together, each with the groups above it."""
_REFERENCE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group of hosts.

    Attributes:
        hosts: Names of the hosts that the group lists itself, in order.
        children: Names of the groups whose hosts belong to this group, too.
        variables: Variables of the group in the inventory's file.
    """

    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    variables: Variables = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """An inventory, with variables from the folders `group_vars` and `host_vars` next to it.

    Attributes:
        groups: Groups by name, in the order of the file.
        hosts: Variables of each host in the inventory's file, by the host's name.
        group_files: Variables of groups in files next to the inventory, by the group's name.
        host_files: Variables of hosts in files next to the inventory, by the host's name.
    """

    groups: Mapping[str, Group] = field(default_factory=dict)
    hosts: Mapping[str, Variables] = field(default_factory=dict)
    group_files: Mapping[str, Variables] = field(default_factory=dict)
    host_files: Mapping[str, Variables] = field(default_factory=dict)

    def members(self, group: str) -> tuple[str, ...]:
        """Return the hosts of a group and of the groups below it, each once, in order."""
        if group == ALL:
            return tuple(self.hosts)
        member_names: dict[str, None] = {}
        for name in self._below(group):
            member_names |= dict.fromkeys(self.groups[name].hosts)
        return tuple(member_names)

    def _below(self, group: str) -> list[str]:
        """Return a group and all groups below it; a group that contains itself is visited once."""
        visited: dict[str, None] = {}
        waiting = [group]
        while waiting:
            name = waiting.pop()
            if name in self.groups and name not in visited:
                visited[name] = None
                waiting += reversed(self.groups[name].children)
        return [*visited]

    def groups_of(self, host: str) -> tuple[str, ...]:
        """Return the groups of a host, the outermost first; equal depths are sorted by name."""
        groups = self.groups_of_hosts.get(host, ())
        return tuple(sorted(groups, key=lambda name: (self._depths.get(name, 0), name)))

    @cached_property
    def groups_of_hosts(self) -> Mapping[str, set[str]]:
        """Return the groups of each host, including the groups above them.

        Raises:
            ValueError: To find them all takes more than `MEMBERSHIPS` steps.
        """
        parents: dict[str, list[str]] = {}
        direct: dict[str, list[str]] = {}
        for name, group in self.groups.items():
            for child in dict.fromkeys(group.children):
                parents.setdefault(child, []).append(name)
            for host in dict.fromkeys(group.hosts):
                direct.setdefault(host, []).append(name)
        groups_by_host: dict[str, set[str]] = {}
        remaining = MEMBERSHIPS
        for host, waiting in direct.items():
            groups = groups_by_host[host] = set()
            while waiting:
                name = waiting.pop()
                if name not in groups:
                    groups.add(name)
                    above = parents.get(name, ())
                    waiting += above
                    remaining -= 1 + len(above)
            if remaining < 0:
                raise PartError(
                    f"hosts in more than {MEMBERSHIPS} groups, counted with those above them"
                )
        return groups_by_host

    @cached_property
    def _depths(self) -> Mapping[str, int]:
        """Return each group's depth: the longest chain of child groups from `all` to the group."""
        depths = {**dict.fromkeys(self.groups, 1), ALL: 0}
        parents = Counter(child for group in self.groups.values() for child in group.children)
        waiting = [name for name in self.groups if name not in parents]
        while waiting:
            name = waiting.pop()
            for child in self.groups[name].children:
                depths[child] = max(depths[child], depths[name] + 1)
                parents[child] -= 1
                if not parents[child]:
                    waiting.append(child)
        # The remaining groups contain themselves, or are below a group that does.
        endless = (name for name, number in parents.items() if number)
        return {**depths, **dict.fromkeys(endless, len(self.groups) + 1)}

    def variables(self, host: str) -> Variables:
        """Return a host's variables, with those of its groups, in Ansible's order of precedence."""
        inner = self.groups_of(host)
        groups = [ALL, *(name for name in inner if name != ALL)]
        of_groups = (self.groups[name].variables for name in groups if name in self.groups)
        of_files = (self.group_files.get(name, {}) for name in groups)
        maps = [*of_groups, *of_files, self.hosts.get(host, {}), self.host_files.get(host, {})]
        # Not merged: each of many hosts would get a copy of all variables of its groups.
        return ChainMap(
            *cast("list[dict[str, Any]]", [mapping for mapping in reversed(maps) if mapping])
        )


class Builder:
    """Builder of an inventory, to which a parser adds groups and hosts one by one."""

    def __init__(self, limit: int) -> None:
        """Create a builder without groups.

        Args:
            limit: Maximum number of hosts, and of groups.
        """
        self._limit, self._work = limit, 0
        self._hosts: dict[str, dict[str, Any]] = {}
        self._members: dict[str, list[str]] = {}
        self._children: dict[str, list[str]] = {}
        self._variables: dict[str, dict[str, Any]] = {}

    def group(self, name: str) -> None:
        """Add a group, which may stay empty.

        Raises:
            ValueError: There are too many groups.
        """
        self._members.setdefault(name, [])
        self._check(self._members, "groups")

    def add(self, group: str, pattern: str, variables: Variables) -> None:
        """Add the hosts of a name or range to a group, with variables.

        Raises:
            ValueError: The range is malformed, or there are too many hosts.
        """
        self.group(group)
        for name in expanded(pattern, self._limit):
            self.set(name, variables)
            self._members[group].append(name)
            self._work += 1 + len(variables)
        self._check(self._hosts, "hosts")
        if self._work > WRITTEN_OUT:
            raise PartError(f"ranges that expand to more than {WRITTEN_OUT} names and variables")

    def _check(self, entries: Mapping[str, object], subject: str) -> None:
        if len(entries) > self._limit:
            raise PartError(f"more than {self._limit} {subject}")

    def set(self, host: str, variables: Variables) -> None:
        """Set variables of one host."""
        self._hosts.setdefault(host, {}).update(variables)

    def set_group(self, group: str, variables: Variables) -> None:
        """Set variables of a group."""
        self.group(group)
        self._variables.setdefault(group, {}).update(variables)

    def child(self, group: str, child: str) -> None:
        """Make a group a child of another group."""
        self.group(group)
        self.group(child)
        self._children.setdefault(group, []).append(child)

    @property
    def inventory(self) -> Inventory:
        """Return the inventory of all added groups and hosts.

        Raises:
            ValueError: The hosts are in too many groups.
        """
        inventory = Inventory(
            groups={
                name: Group(
                    hosts=tuple(self._members[name]),
                    children=tuple(self._children.get(name, ())),
                    variables=self._variables.get(name, {}),
                )
                for name in self._members
            },
            hosts=self._hosts,
        )
        _ = inventory.groups_of_hosts
        return inventory


def text(variables: Variables, names: Iterable[str]) -> str | None:
    """Return the value of the first of these variables that is set, as text.

    A value may be one reference to another variable, such as `{{ ip }}`.

    Returns:
        The text; None if no variable has a plain value, or if the value is an expression that only
        Ansible can evaluate. Empty and encrypted values count as not set.
    """
    for name in names:
        value = _follow_references(variables, name)
        if isinstance(value, bool) or not isinstance(value, str | int):
            continue
        if written := str(value).strip():
            return None if "{{" in written or "{%" in written else written
    return None


def unreadable(variables: Variables, names: Iterable[str]) -> str | None:
    """Return the name of the first variable whose value only Ansible can decrypt or evaluate."""
    for name in names:
        value = _follow_references(variables, name)
        if isinstance(value, Tagged) or (isinstance(value, str) and "{{" in value):
            return name
    return None


def number(variables: Variables, names: Iterable[str]) -> int | None:
    """Return the integer value of the first of these variables that is set.

    Return None if none is set, or if the value is no integer.
    """
    written = text(variables, names)
    return int(written) if written and re.fullmatch(r"[0-9]{1,9}", written) else None


def truth(variables: Variables, name: str) -> bool | None:
    """Return a variable as Ansible's boolean: `yes` and `1` are true. None if it is not set."""
    value = _follow_references(variables, name)
    if value is None or isinstance(value, Tagged):
        return None
    return str(value).strip().lower() in ("true", "yes", "on", "1", "y", "t")


def texts(value: object) -> tuple[str, ...]:
    """Return the non-empty strings of a list, or of a comma-separated string."""
    items = value.split(",") if isinstance(value, str) else value
    values = items if isinstance(items, list | tuple) else ()
    return tuple(item.strip() for item in values if isinstance(item, str) and item.strip())


def _follow_references(variables: Variables, name: str) -> Any:
    value = variables.get(name)
    for _ in range(_DEPTH):
        match = _REFERENCE.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None or match[1] not in variables:
            return value
        value = variables[match[1]]
    return value


def expanded(pattern: str, limit: int) -> Iterator[str]:
    """Yield the host names of a pattern such as `gpu[01:16]`, `db-[a:f]` or `n[0:10:2]`.

    Args:
        pattern: A host name with ranges of numbers or letters; both ends belong to a range.
        limit: Maximum number of names.

    Raises:
        ValueError: A range is malformed, or there are too many names.
    """
    if pattern.count("[") > _RANGES:
        raise PartError(f"a name with more than {_RANGES} ranges")
    head, bracket, after_bracket = pattern.partition("[")
    if not bracket:
        yield pattern
        return
    inner, closing, tail = after_bracket.partition("]")
    if not closing:
        raise PartError("a range without its closing bracket")
    tails = list(expanded(tail, limit))
    items = _parse_range(inner)
    if len(items) * len(tails) > limit:
        raise PartError(f"a range of more than {limit} hosts")
    for item in items:
        for end in tails:
            yield f"{head}{item}{end}"


class _Numbered:
    """Sequence of the numbers in a range such as `[01:16]`, as text, computed on access."""

    def __init__(self, numbers: range, width: int) -> None:
        self._numbers, self._width = numbers, width

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{self._width}d}" for number in self._numbers)


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _parse_range(inner: str) -> _Numbered | str:
    bounds = inner.split(":")
    if len(bounds) not in (2, 3) or not bounds[1]:
        raise PartError("a range that is not begin:end or begin:end:step")
    first, last, step = (
        bounds[0] or "0",
        bounds[1],
        int(_check_digits(bounds[2] if bounds[2:] else "1")),
    )
    if step < 1:
        raise PartError("a range whose step is 0")
    if len(first) == len(last) == 1 and first in _LETTERS and last in _LETTERS:
        letters = _LETTERS[_LETTERS.index(first) : _LETTERS.index(last) + 1 : step]
        if not letters:
            raise PartError("a descending range")
        return letters
    padded = first.startswith("0") and len(first) > 1
    if padded and len(first) != len(last):
        raise PartError("a range with leading zeros whose ends differ in length")
    numbers = range(int(_check_digits(first)), int(_check_digits(last)) + 1, step)
    if not numbers:
        raise PartError("a descending range")
    return _Numbered(numbers, len(first) if padded else 1)


def _check_digits(written: str) -> str:
    if re.fullmatch(r"[0-9]{1,9}", written) is None:
        raise PartError("a range with an end that is neither a number nor a letter")
    return written
