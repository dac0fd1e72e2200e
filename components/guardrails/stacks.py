"""What the rules need to know, read of a stack's text or file: for the pack and the checker.

pydantic's import takes a while: the settings are imported where there is a stack to read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from policies.check.context import ContextError
from policies.faults import ConfigError, Fault
from policies.rules import Context


def context_of_document(text: str) -> Context:
    """Return the context of a stack's `gpu-cluster:cluster`.

    Args:
        text: the document, as JSON.

    Raises:
        ConfigError: the document is wrong.
    """
    from components.desired.resolve import resolve
    from components.loading.loader import load

    return resolve(load(json.loads(text)), "").rules


def context_of_stack(name: str, folder: Path) -> Context:
    """Return the context of `Pulumi.<name>.yaml`, looked for in a folder and in those above it.

    Raises:
        ContextError: there is no such file, or it is wrong.
    """
    from components.desired.resolve import resolve
    from components.loading.stack_file import load_stack_file

    file_name = f"Pulumi.{name}.yaml"
    for parent in (folder, *folder.parents):
        if (path := parent / file_name).is_file():
            try:
                return resolve(load_stack_file(path), name).rules
            except ConfigError as error:
                named = (
                    replace(fault, place=f"{error.source}: {fault.place}") for fault in error.faults
                )
                raise ContextError(*named) from None
    found = f"no {file_name} in {folder} nor above it"
    cure = "run in the project's folder, or check the name"
    raise ContextError(Fault(f"--stack {name}", found, "the stack's file", cure))
