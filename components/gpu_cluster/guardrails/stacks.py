"""Facts about a stack that the rules need, read from its stack file.

The settings are imported inside the functions, because importing pydantic is slow and not every run
reads a stack.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gpu_rules.check.context import ContextError
from gpu_rules.context import Context
from gpu_rules.faults import ConfigError, Fault


def context_of_document(text: str) -> Context:
    """Return the context of the GPU rules from a stack's setting `gpu-cluster:cluster`.

    Args:
        text: The document, as JSON.

    Raises:
        ConfigError: The document has faults.
    """
    from gpu_cluster.desired.resolve import resolve
    from gpu_cluster.loading.loader import load

    return resolve(load(json.loads(text)), "").rules


def context_of_stack(name: str, folder: Path) -> Context:
    """Return the context of the GPU rules from `Pulumi.<name>.yaml` in a folder or its parents.

    Raises:
        ContextError: The file does not exist or has faults.
    """
    from gpu_cluster.desired.resolve import resolve
    from gpu_cluster.loading.stack_file import load_stack_file

    file_name = f"Pulumi.{name}.yaml"
    for parent in (folder, *folder.parents):
        if (path := parent / file_name).is_file():
            try:
                return resolve(load_stack_file(path), name).rules
            except ConfigError as error:
                named_faults = (
                    replace(fault, place=f"{error.source}: {fault.place}") for fault in error.faults
                )
                raise ContextError(*named_faults) from None
    found = f"no {file_name} in {folder} nor above it"
    cure = "run in the project's folder, or check the name"
    raise ContextError(Fault(f"--stack {name}", found, "the stack's file", cure))
