"""Arguments of the Commands that run an operation on the engineer's machine."""

from __future__ import annotations

import json
from typing import Any

import pulumi


def command_line(module: str, action: str) -> str:
    """The shell line that runs an operation; names no path of one machine."""
    return f"sh operations/run.sh {module} {action}"


def document(value: dict[str, Any]) -> str:
    """An operation's input, in one form, so that equal content is equal text."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def repair(line: str, finding: str | None) -> tuple[str, list[str]]:
    """The ``update`` line of a Command and what the engine is to ignore of it.

    What was found to differ from what is declared goes into the update line as a comment: the
    preview shows it and the engine runs the update. Without a finding the engine keeps the line of
    the last run, so that a repair is not followed by a change back.

    Args:
        line: the shell line that applies.
        finding: one line, or None where nothing was found. Must differ between two runs.
    """
    if finding is None:
        return line, ["update"]
    return f"{line} # {finding}", []


def parsed(result: pulumi.Output[str]) -> pulumi.Output[dict[str, Any]]:
    """A Command's standard output as JSON."""
    return result.apply(lambda text: dict(json.loads(text)) if text else {})
