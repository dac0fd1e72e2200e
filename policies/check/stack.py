"""What a stack file says of the cluster."""

from __future__ import annotations

from pathlib import Path

from policies.rules import Context


class StackError(Exception):
    """The stack file is missing or wrong; the text says what to do."""


def context(name: str, folder: Path) -> Context:
    """The context of `Pulumi.<name>.yaml`, looked for in a folder and in those above it.

    Raises `StackError`.
    """
    from config import ConfigError, load_stack_file  # pydantic's import takes a while
    from policies.stack import context_of

    file_name = f"Pulumi.{name}.yaml"
    for each in (folder, *folder.parents):
        if (path := each / file_name).is_file():
            try:
                return context_of(load_stack_file(path))
            except ConfigError as error:
                raise StackError(str(error)) from None
    raise StackError(
        f"--stack {name}: found no {file_name} in {folder} nor above it, wanted the stack's file. "
        "Run in the project's folder, or check the name."
    )
