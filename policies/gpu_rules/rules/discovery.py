"""Find the rules: modules named `<topic>/gpuNNN_<what>.py` with `RULE`, `TWIN` and `EXAMPLE`.

If a module lacks one of the three, the first import of the rules raises an error that names it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from ..faults import Fault, FaultError
from .example import Example
from .rule import Rule
from .twin import NoTwin, Twin

_MODULE: Final = re.compile(r".*\.(gpu[0-9]{3})_[a-z0-9_]+")
_Kind = type[object] | tuple[type[object], ...]


class RuleError(FaultError):
    """Error: the module of a rule lacks a required name, or its id is wrong or used twice."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule with its CEL twin for admission, its example and its topic."""

    rule: Rule
    twin: Twin | NoTwin
    example: Example
    group: str


def find(folders: Sequence[str], package: str) -> tuple[Entry, ...]:
    """Return every rule in the topics of a package, sorted by id.

    Args:
        folders: Folders of the package.
        package: Import name of the package.

    Raises:
        RuleError: A module lacks `RULE`, `TWIN` or `EXAMPLE`, or its id is wrong or used twice.
    """
    entries: dict[str, Entry] = {}
    for info in pkgutil.walk_packages(folders, f"{package}."):
        if match := _MODULE.fullmatch(info.name):
            entry = read(importlib.import_module(info.name))
            if entry.rule.id != match[1].upper():
                raise _module_error(
                    info.name, f"the id {entry.rule.id}", "that of the module's name"
                )
            if entry.rule.id in entries:
                raise _module_error(info.name, f"the id {entry.rule.id} twice", "an id of its own")
            entries[entry.rule.id] = entry
    return tuple(entry for _, entry in sorted(entries.items()))


def read(module: ModuleType) -> Entry:
    """Return the rule of a module.

    Raises:
        RuleError: The module lacks `RULE`, `TWIN` or `EXAMPLE`, or its twin lacks signs.
    """
    rule = _module_part(module, "RULE", Rule, "a Rule")
    twin: Twin | NoTwin = _module_part(
        module, "TWIN", (Twin, NoTwin), 'a Twin, or NoTwin("why there is none")'
    )
    if isinstance(twin, Twin) and twin.judges_pods and not twin.signs:
        raise _module_error(
            module.__name__, "a twin about pods without signs", "signs=(Sign(…), …)"
        )
    group = (module.__package__ or "").rpartition(".")[2]
    return Entry(rule, twin, _module_part(module, "EXAMPLE", Example, "an Example"), group)


def _module_part(module: ModuleType, name: str, kind: _Kind, wanted: str) -> Any:
    value = getattr(module, name, None)
    if not isinstance(value, kind):
        raise _module_error(module.__name__, f"no {name}", f"{name} = {wanted}")
    return value


def _module_error(module: str, found: str, wanted: str) -> RuleError:
    cure = "write it beside the rule, as the modules next to it do"
    return RuleError(Fault(module, found, wanted, cure))
