"""What the rules are told of the cluster: by a stack file, then by the pack's configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..faults import Fault, FaultError, InputError
from ..parameters import PROPERTIES, context_by
from ..rules import Context
from .parse import documents
from .stream import decode

SECTION = "gpu-rules-mandatory"
"""The policy whose settings `pulumi preview --policy-pack-config` gives to the pack."""


class ContextError(FaultError):
    """The stack file or the configuration is missing or wrong."""


def of_stack(name: str, folder: Path) -> Context:
    """The context of `Pulumi.<name>.yaml`, looked for in a folder and in those above it.

    Raises `ContextError`.
    """
    from components.guardrails.context import context_of
    from components.settings.stack_file import load_stack_file  # pydantic's import takes a while

    from ..faults import ConfigError

    file_name = f"Pulumi.{name}.yaml"
    for parent in (folder, *folder.parents):
        if (path := parent / file_name).is_file():
            try:
                return context_of(load_stack_file(path))
            except ConfigError as error:
                named = (
                    replace(fault, place=f"{error.source}: {fault.place}") for fault in error.faults
                )
                raise ContextError(*named) from None
    found = f"no {file_name} in {folder} nor above it"
    cure = "run in the project's folder, or check the name"
    raise ContextError(Fault(f"--stack {name}", found, "the stack's file", cure))


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
