"""What the rules are told of the cluster: by a stack file, then by the pack's configuration."""

from __future__ import annotations

from pathlib import Path

from policies.check.parse import documents
from policies.check.problem import InputError
from policies.check.stream import decode
from policies.parameters import PROPERTIES, context_by
from policies.rules import Context

SECTION = "gpu-rules-mandatory"
"""The policy whose settings `pulumi preview --policy-pack-config` gives to the pack."""


class ContextError(Exception):
    """The stack file or the configuration is missing or wrong; the text says what to do."""


def of_stack(name: str, folder: Path) -> Context:
    """The context of `Pulumi.<name>.yaml`, looked for in a folder and in those above it.

    Raises `ContextError`.
    """
    from components.guardrails.context import context_of
    from components.settings.stack_file import load_stack_file  # pydantic's import takes a while
    from config.problem import ConfigError

    file_name = f"Pulumi.{name}.yaml"
    for parent in (folder, *folder.parents):
        if (path := parent / file_name).is_file():
            try:
                return context_of(load_stack_file(path))
            except ConfigError as error:
                raise ContextError(str(error)) from None
    raise ContextError(
        f"--stack {name}: found no {file_name} in {folder} nor above it, wanted the stack's file. "
        "Run in the project's folder, or check the name."
    )


def by_config(path: Path, context: Context) -> Context:
    """A context with the settings of a file for `pulumi preview --policy-pack-config` in it.

    Raises `ContextError` with all that is wrong in the file.
    """
    from jsonschema import Draft7Validator  # needed for this alone

    try:
        (document,) = documents(decode(path.read_bytes()))
    except OSError as error:
        raise _refused(path, [f"found {(error.strerror or str(error)).lower()}"]) from None
    except InputError as error:
        raise _refused(path, [f"line {error.line}: found {error.found}"]) from None
    except ValueError:
        raise _refused(path, ["found none or several documents"]) from None
    settings = document.get(SECTION) if isinstance(document, dict) else None
    if not isinstance(settings, dict):
        raise _refused(path, [f"found no mapping {SECTION}"])
    schema = {"type": "object", "properties": PROPERTIES, "additionalProperties": False}
    wrong = sorted(Draft7Validator(schema).iter_errors(settings), key=str)
    if wrong:
        reasons = [f"{SECTION}{problem.json_path[1:]}: {problem.message}" for problem in wrong]
        raise _refused(path, reasons)
    return context_by(settings, context)


def _refused(path: Path, reasons: list[str]) -> ContextError:
    lines = "\n".join(f"  {reason}" for reason in reasons)
    return ContextError(
        f"--config {path}: wanted the pack's configuration, as docs/rules describes it\n{lines}"
    )
