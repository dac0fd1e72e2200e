"""What the rules are told of the cluster: by a stack file, then by the pack's configuration.

Stack files are read by the project that they belong to (`StackFinder`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..faults import Fault, FaultError, InputError
from ..parameters import PROPERTIES, context_by
from ..rules import Context
from .parse import documents
from .stream import decode

SECTION = "gpu-rules-mandatory"
"""The policy whose settings `pulumi preview --policy-pack-config` gives to the pack."""


StackFinder = Callable[[str, Path], Context]
"""Returns the context of a stack by its name, looked for from a folder up, or raises
`ContextError`."""


class ContextError(FaultError):
    """The stack file or the configuration is missing or wrong."""


def of_stack(name: str, folder: Path, find: StackFinder | None) -> Context:
    """Return the context of a stack.

    Args:
        name: the stack's name.
        folder: where the search for its file begins.
        find: reads stack files; without it none can be read.

    Raises:
        ContextError: the stack is not there or wrong, or nothing reads it.
    """
    if find is None:
        found, wanted = "a checker without a project", "the checker of the project with the stack"
        cure = "run `gpu-rules` or `python -m components.guardrails.check`, or give --config"
        raise ContextError(Fault(f"--stack {name}", found, wanted, cure))
    return find(name, folder)


def by_config(path: Path, context: Context) -> Context:
    """A context with the settings of a file for `pulumi preview --policy-pack-config` in it.

    Raises `ContextError` with all that is wrong in the file.
    """
    from jsonschema import Draft7Validator  # needed for this alone

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
    return context_by(settings, context)


def _refused(path: Path, *found: str) -> ContextError:
    wanted, cure = "the pack's configuration", "write it as docs/rules describes it"
    return ContextError(*(Fault(f"--config {path}", item, wanted, cure) for item in found))
