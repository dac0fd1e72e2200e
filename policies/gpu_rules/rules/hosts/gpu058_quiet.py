"""Rule GPU058: a command with secret inputs must not log its output."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..example import HOST_COMMAND, Example
from ..rule import Finding, Rule, Subject
from ..secret import is_secret
from ..twin import HOST_COMMANDS
from ..unknown import UNKNOWN, mapping, text
from .commands import API_VERSION, TEXTS


def _check_logging(subject: Subject, _: Context) -> Iterator[Finding]:
    if subject.group_version != API_VERSION or subject.kind != "Command":
        return
    environment = subject.manifest.get("environment")
    hidden = [name for name in TEXTS if is_secret(subject.manifest.get(name))]
    if is_secret(environment) or any(map(is_secret, mapping(environment).values())):
        hidden.append("environment")
    logging = subject.manifest.get("logging")
    if hidden and logging is not UNKNOWN and logging != "none":
        yield Finding(
            path="logging",
            found=f"{text(logging)[:20] or 'the default, both streams'}, but {hidden[0]} "
            "is a secret",
            wanted="none",
            cure="Set logging: none. Otherwise the engine's log shows the command's output as "
            "plain text.",
        )


RULE = Rule(
    id="GPU058",
    title="A command with secret inputs logs nothing",
    severity=Severity.MANDATORY,
    check=_check_logging,
    why="The command plugin logs standard output and standard error line by line, whether or "
    "not the inputs are secrets.",
    source="pulumi-command 1.2.1 provider/pkg/provider/common LogOutput; issues 260, 401",
    whole=True,
)

TWIN = HOST_COMMANDS

EXAMPLE = Example.edited(
    HOST_COMMAND + "stdin: {fn::secret: TOKEN=abc}\nlogging: none\n",
    ("\nlogging: none", ""),
)
