"""Cluster facts for the checker, from a Pulumi stack file and a file with settings of the rules.

The settings override the stack file. Only the Pulumi project of a stack can parse its stack file,
so the project passes a function for this to the checker (`StackFinder`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

import yaml

from ..faults import Fault, FaultError, InputError
from ..parameters import IGNORED_PATHS, PROPERTIES, RULE_FOLDER, context_by
from ..rules import Context, Severity
from ..rules.discovery import RuleError
from ..rules.registry import add_rules
from ..settings_file import EXAMPLES
from .ignored import anchored
from .parse import documents
from .stream import decode

SECTION = "gpu-rules-mandatory"
"""Policy with the settings of the rules, in a file for `pulumi preview --policy-pack-config`."""

FILE: Final = ".gpu-rules.yaml"
"""Name of the settings file that the checker uses if `--config` names no file."""

_CURE: Final = "`gpu-rules settings` prints a file with every setting: write it like that"

StackFinder = Callable[[str, Path], Context]
"""A function that returns the cluster facts of a stack, or raises `ContextError`.

Its arguments are the stack's name and the folder in which the search for the stack file begins; the
search continues in the folders above.
"""


class ContextError(FaultError):
    """A stack file or another file that the command line names is missing or has faults."""


def of_stack(name: str, folder: Path, find: StackFinder | None) -> Context:
    """Return the cluster facts in the stack file of a Pulumi stack.

    Args:
        folder: Folder in which the search for the stack file begins.
        find: Function that reads stack files. If None, no stack file can be read.

    Raises:
        ContextError: The stack file is missing or has faults, or `find` is None.
    """
    if find is None:
        found, wanted = "a checker that reads no stack files", "the checker of the stack's project"
        cure = (
            "in the project run `python -m gpu_cluster.guardrails.check`, or give pools and "
            f"platform in {FILE}"
        )
        raise ContextError(Fault(f"--stack {name}", found, wanted, cure))
    return find(name, folder)


def find_config(folder: Path) -> Path | None:
    """Return the nearest `.gpu-rules.yaml` in a folder or its parent folders, or None.

    The search ends at the root of the folder's git repository. Outside a git repository only the
    folder itself is searched, because its parent folders may belong to other users.
    """
    above = (folder, *folder.parents)
    ends = (n for n, parent in enumerate(above) if os.path.exists(parent / ".git"))
    names = (parent / FILE for parent in above[: next(ends, 0) + 1])
    return next((name for name in names if os.path.isfile(name)), None)


def configured(given: Path | None, folder: Path, context: Context) -> Context:
    """Return a copy of cluster facts with the settings from a file.

    Args:
        given: The file with settings that the user named, or None to use `.gpu-rules.yaml`.
        folder: Folder in which the search for `.gpu-rules.yaml` begins.
        context: Facts about the cluster that apply if the settings don't replace them.

    Raises:
        ContextError: The file cannot be read or has faults; the error lists all of them.
    """
    if given:
        return by_config(given, context)
    default_file = find_config(folder)
    return by_config(default_file, context, trusted=False) if default_file else context


def by_config(path: Path, context: Context, *, trusted: bool = True) -> Context:
    """Return a copy of cluster facts with the settings from a named file.

    Args:
        path: File with the settings of the rules. It may also have the format for
            `pulumi preview --policy-pack-config`.
        context: Facts about the cluster that apply if the settings don't replace them.
        trusted: Whether the user named the file. Only then may the checker run the user-defined
            rules in its `ruleFolder`.

    Raises:
        ContextError: The file cannot be read or has faults; the error lists all of them.
    """
    settings = settings_of(path, trusted=trusted)
    try:
        if RULE_FOLDER in settings:
            add_rules(path.parent / settings[RULE_FOLDER])
        ignored = anchored(settings.get(IGNORED_PATHS, ()), os.fspath(path.parent))
        return replace(context_by(settings, context), ignored_paths=ignored)
    except RuleError as error:
        raise _refused(path, *map(str, error.faults)) from None
    except ValueError as error:
        found, _, cure = str(error).partition("; cure: ")
        fault = Fault(f"--config {path}", found, "settings of the rules", cure or _CURE)
        raise ContextError(fault) from None


def settings_of(path: Path, *, trusted: bool) -> dict[str, Any]:
    """Return the settings of the rules in a file.

    Args:
        path: File with the settings, alone or in the format for
            `pulumi preview --policy-pack-config`.
        trusted: Whether the user named the file; if not, the setting `ruleFolder` is rejected.

    Raises:
        ContextError: The file cannot be read or has faults; the error lists all of them.
    """
    # jsonschema is imported only for runs with a settings file.
    from jsonschema import Draft7Validator

    try:
        (document,) = documents(decode(path.read_bytes()))
    except OSError as error:
        raise _refused(path, (error.strerror or str(error)).lower()) from None
    except InputError as error:
        raise _refused(path, f"{error.found} in line {error.line}") from None
    except ValueError:
        raise _refused(path, "none or several documents") from None
    settings, place = _settings(document)
    if not isinstance(settings, dict):
        raise _refused(path, f"no mapping {place or 'of settings'}")
    # kubectl's YAML reads an unquoted `off` as false; here, as in a stack file, it means the text
    # "off".
    if isinstance(rules := settings.get("rules"), dict):
        off = Severity.OFF.value
        settings["rules"] = {rule: off if it is False else it for rule, it in rules.items()}
    schema = {"type": "object", "properties": PROPERTIES, "additionalProperties": False}
    wrong = sorted(Draft7Validator(schema).iter_errors(settings), key=str)
    faults = [
        _wrong_form(path, place + problem.json_path[1:], problem.message, problem.absolute_path)
        for problem in wrong
    ] or [
        _wrong_form(
            path, f"{place}.exemptions[{index}].until", "no day", ("exemptions", index, "until")
        )
        for index, exemption in enumerate(settings.get("exemptions", ()))
        if not _is_day(exemption["until"])
    ]
    if faults:
        raise ContextError(*faults)
    if RULE_FOLDER in settings and not trusted:
        cure = f"give the file by --config, if you trust whoever wrote it: {RULE_FOLDER} is run"
        found_by_itself = "in a file that was found by itself"
        raise ContextError(Fault(str(path), f"{RULE_FOLDER} {found_by_itself}", "none", cure))
    return settings


def _is_day(written: str) -> bool:
    """Return whether a text of the form of a day is a day."""
    try:
        date.fromisoformat(written)
    except ValueError:
        return False
    return True


def _settings(document: Any) -> tuple[object, str]:
    """Return the settings in a document, and the name of their section; empty for no section."""
    if isinstance(document, dict) and SECTION in document:
        return document[SECTION], SECTION
    return document, ""


def _refused(path: Path, *found: str) -> ContextError:
    wanted = "settings of the rules"
    return ContextError(*(Fault(f"--config {path}", item, wanted, _CURE) for item in found))


def _wrong_form(path: Path, field: str, problem: str, steps: Iterable[str | int]) -> Fault:
    """Return the fault for a setting of a wrong form, with the form that is wanted.

    Args:
        path: The file with the settings.
        field: Path of the setting in the file.
        problem: What is wrong with its value.
        steps: Names and indexes on the way to the setting.
    """
    definition: Mapping[str, Any] = {"properties": PROPERTIES}
    wanted, name = "settings of the rules", ""
    example: Any = dict(EXAMPLES)
    is_item = False
    for step in steps:
        below = definition.get("properties", {}).get(step) or definition.get("items", {})
        definition = below if isinstance(below, dict) else {}
        wanted = str(definition.get("description", wanted))
        match example:
            case dict() if step in example:
                name, example, is_item = str(step), example[step], False
            case [dict(first), *_] if isinstance(step, int):
                example, is_item = first, True
    found = f"{field}: {problem}".removeprefix(".").removeprefix(": ")
    wanted = wanted.rstrip(".")
    if name:
        wanted = f"{wanted}; such as {_shown(name, [example] if is_item else example)}"
    return Fault(f"--config {path}", found, wanted, _CURE)


def _shown(name: str, example: object) -> str:
    """Return an example of a setting as one line of YAML."""
    line: str = yaml.safe_dump(
        {name: example}, default_flow_style=True, sort_keys=False, width=10_000
    )
    return line.strip().removeprefix("{").removesuffix("}")
