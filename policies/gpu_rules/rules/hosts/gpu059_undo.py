"""Rule GPU059: a command on a host should have a delete command that undoes its create command."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..example import HOST_COMMAND, Example
from ..rule import Finding, Rule, Subject
from ..twin import HOST_COMMANDS
from .commands import API_VERSION

_UNDONE = frozenset({"Command"})


def _check_undo(subject: Subject, _: Context) -> Iterator[Finding]:
    if subject.group_version != API_VERSION or subject.kind not in _UNDONE:
        return
    if subject.manifest.get("create") is not None and subject.manifest.get("delete") is None:
        yield Finding(
            path="delete",
            found="no delete command",
            wanted="a command that undoes what create does",
            cure="Set delete. Set update, too: without it, every change runs create again.",
        )


RULE = Rule(
    id="GPU059",
    title="A command on a host has a delete command",
    severity=Severity.ADVISORY,
    check=_check_undo,
    why="Without delete, `pulumi destroy` leaves on the host what the create command wrote.",
    source="pulumi-command 1.2.1 provider/pkg/provider/remote/commandController.go",
    whole=True,
)

TWIN = HOST_COMMANDS

EXAMPLE = Example.edited(
    HOST_COMMAND,
    ("\ndelete: sh -s -- undo", ""),
)
