"""Rule GPU057: a command on a host must not have a secret in plain text."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..example import HOST_COMMAND, Example
from ..rule import Finding, Rule, Subject
from ..twin import HOST_COMMANDS
from ..unknown import at, mapping, text
from .commands import API_VERSION, TEXTS, connections_of

_CREDENTIALS = ("password", "privateKey", "privateKeyPassword")

_KEY_MARK = "PRIVATE KEY-----"


def _no_clear_secret(subject: Subject, _: Context) -> Iterator[Finding]:
    for path, connection, hidden in connections_of(subject):
        for name in _CREDENTIALS:
            value = at(connection, name)
            if not hidden and text(value):
                yield _clear_text_finding(f"{path}.{name}")
    if subject.group_version != API_VERSION:
        return
    texts = {name: subject.manifest.get(name) for name in TEXTS}
    environment = mapping(subject.manifest.get("environment"))
    texts |= {f"environment[{name}]": value for name, value in environment.items()}
    for path, value in texts.items():
        if _KEY_MARK in text(value):
            yield _clear_text_finding(path)


def _clear_text_finding(path: str) -> Finding:
    return Finding(
        path=path,
        found="a secret as plain text",
        wanted="a Pulumi secret",
        cure="Pass it as pulumi.Output.secret(…), or set it with `pulumi config set --secret`.",
    )


RULE = Rule(
    id="GPU057",
    title="A command contains no secret as plain text",
    severity=Severity.MANDATORY,
    check=_no_clear_secret,
    why="Plain-text inputs are written to the state, to previews and to error texts. If a "
    "command fails, the command plugin prints the whole command.",
    source="pulumi-command issues 260, 401, 773; provider/pkg/provider/remote/command.go",
)

TWIN = HOST_COMMANDS

EXAMPLE = Example(
    HOST_COMMAND,
    HOST_COMMAND
    + """\
stdin: |
  install -m 600 /dev/stdin /root/key <<EOF
  -----BEGIN OPENSSH PRIVATE KEY-----
""",
)
