"""The stack file with which `gpu-cluster init` begins a stack on a real cluster.

`new` and `adopt` replace the file as long as nobody edited it.
"""

from __future__ import annotations

from pathlib import Path

from gpu_cluster.commands.stack import Stack

_TEMPLATE = Path(__file__).with_name("site_files") / "stack" / "Pulumi.STACK.yaml"


def begun_text(name: str) -> str:
    """Return the text of the file with which a stack begins."""
    return _TEMPLATE.read_text(encoding="utf-8").replace("@STACK@", name)


def has_edited_file(stack: Stack) -> bool:
    """Return whether a stack has a file that was edited since `gpu-cluster init` wrote it."""
    file = stack.file
    return file.exists() and file.read_text(encoding="utf-8") != begun_text(stack.name)
