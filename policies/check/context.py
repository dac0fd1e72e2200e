"""Cluster facts for the checker: from a stack file, then from the policy pack's configuration.

Only the project that a stack file belongs to can read it, through a `StackFinder`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..faults import Fault, FaultError, InputError
from ..parameters import PROPERTIES, RULE_FOLDER, context_by
from ..rules import Context
from ..rules.discovery import RuleError
from ..rules.registry import add_rules
from .parse import documents
from .stream import decode

SECTION = "gpu-rules-mandatory"
"""Name of the policy whose settings `pulumi preview --policy-pack-config` passes to the pack."""


StackFinder = Callable[[str, Path], Context]
"""A function that returns the cluster facts of a stack, or raises `ContextError`.

Its arguments are the stack's name and the folder in which the search for the stack file begins; the
search continues in the folders above.
"""


class ContextError(FaultError):
    """The stack file or the pack's configuration is missing or has faults."""


def of_stack(name: str, folder: Path, find: StackFinder | None) -> Context:
    """Return the cluster facts of a stack.

    Args:
        name: Name of the stack.
        folder: Folder in which the search for the stack file begins.
        find: Function that reads stack files. If None, no stack file can be read.

    Raises:
        ContextError: The stack file is missing or has faults, or `find` is None.
    """
    if find is None:
        found, wanted = "a checker without a project", "the checker of the project with the stack"
        cure = "run `gpu-rules` or `python -m components.guardrails.check`, or give --config"
        raise ContextError(Fault(f"--stack {name}", found, wanted, cure))
    return find(name, folder)


def by_config(path: Path, context: Context) -> Context:
    """Return a copy of cluster facts with the settings of a policy pack configuration file.

    Args:
        path: A file as for `pulumi preview --policy-pack-config`.
        context: Facts about the cluster that the settings don't change.

    Raises:
        ContextError: The file cannot be read or has faults; the error lists all of them.
    """
    # Imported here because only this function needs it.
    from jsonschema import Draft7Validator

    try:
        (document,) = documents(decode(path.read_bytes()))
    except OSError as error:
        raise _refused(path, (error.strerror or str(error)).lower()) from None
    except InputError as error:
        raise _refused(path, f"{error.found} in line {error.line}") from None
    except ValueError:
        raise _refused(path, "none or several documents") from None
    settings = document.get(SECTION) if isinstance(document, dict) else None
    if not isinstance(settings, dict):
        raise _refused(path, f"no mapping {SECTION}")
    schema = {"type": "object", "properties": PROPERTIES, "additionalProperties": False}
    wrong = sorted(Draft7Validator(schema).iter_errors(settings), key=str)
    if wrong:
        found = (f"{SECTION}{problem.json_path[1:]}: {problem.message}" for problem in wrong)
        raise _refused(path, *found)
    try:
        if RULE_FOLDER in settings:
            add_rules(path.parent / settings[RULE_FOLDER])
        return context_by(settings, context)
    except RuleError as error:
        raise _refused(path, *map(str, error.faults)) from None
    except ValueError as error:
        raise _refused(path, str(error)) from None


def _refused(path: Path, *found: str) -> ContextError:
    wanted, cure = "the pack's configuration", "write it as docs/rules.md describes it"
    return ContextError(*(Fault(f"--config {path}", item, wanted, cure) for item in found))
