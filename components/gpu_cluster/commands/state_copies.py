"""Copies of a stack's state in its backend, made before a command changes something.

A copy has the form of `pulumi stack export`, with its secrets encrypted, so `pulumi stack import`
takes it. Only a local backend gets copies: the engine writes to other backends itself, and keeps
the state of each finished update there (pulumi v3.274.1, pkg/backend/diy/state.go, addToHistory).
docs/how-to/recover.md describes how a copy is brought back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pulumi import automation

from gpu_cluster.change.file import replace_text
from gpu_cluster.commands.backend import backend_folder
from gpu_cluster.commands.project import PROJECT
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state import resources_of
from gpu_cluster.machine.folders import make_private

FOLDER = "copies"
"""Folder of the copies in the backend. The engine reads and removes only folders of its own."""
DIGITS = 6
"""Digits of the number at the beginning of a copy's name."""


def keep_copy(stack: Stack, state: automation.Deployment) -> Path | None:
    """Copy the state to the stack's local backend; delete copies beyond the declared number.

    Args:
        stack: The stack, whose setting `stateCopies` is the number of copies.
        state: The state, as `gpu_cluster.commands.state.export_state` returned it.

    Returns:
        The newest copy. None: there is nothing to copy, no copy is wanted, or the backend is no
        folder.
    """
    backend = backend_folder(os.environ.get("PULUMI_BACKEND_URL", ""))
    wanted = stack.cluster.state_copies
    if backend is None or not wanted or not resources_of(state):
        return None
    folder = backend / FOLDER / PROJECT / stack.name
    make_private(folder)
    text = json.dumps({"version": state.version, "deployment": state.deployment})
    copies = copies_in(folder)
    if not copies or copies[0].read_text(encoding="utf-8") != text:
        copies.insert(0, folder / _name_after(copies))
        replace_text(copies[0], text)
    for old in copies[wanted:]:
        old.unlink(missing_ok=True)
    return copies[0]


def copies_in(folder: Path) -> list[Path]:
    """Return the copies in a folder, the newest first."""
    return sorted(folder.glob("[0-9]*-*.json"), reverse=True)


def _name_after(copies: Sequence[Path]) -> str:
    """Return the name of a new copy; its number gives the order, because a clock may be set back.

    Args:
        copies: The copies, the newest first.
    """
    number = int(copies[0].name[:DIGITS]) + 1 if copies else 1
    return f"{number:0{DIGITS}}-{datetime.now(UTC):%Y-%m-%dT%H.%M.%SZ}.json"
