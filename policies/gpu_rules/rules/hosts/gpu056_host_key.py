"""Rule GPU056: an SSH connection to a host must verify the host's key."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...context import Context, Severity
from ..example import HOST_COMMAND, Example
from ..rule import Finding, Rule, Subject
from ..secret import reveal
from ..twin import HOST_COMMANDS
from ..unknown import UNKNOWN, at, text
from .commands import connections_of


def _check_host_key(subject: Subject, _: Context) -> Iterator[Finding]:
    for path, connection, _hidden in connections_of(subject):
        key = reveal(at(connection, "hostKey"))
        if key is not UNKNOWN and not text(key).strip():
            yield Finding(
                path=f"{path}.hostKey",
                found="no host key, so the connection accepts any host",
                wanted="the host's public key, such as ssh-ed25519 AAAA…",
                cure="Copy it from /etc/ssh/ssh_host_ed25519_key.pub on the host.",
            )


RULE = Rule(
    id="GPU056",
    title="An SSH connection has the host's public key",
    severity=Severity.MANDATORY,
    check=_check_host_key,
    why="Without hostKey, the command plugin accepts any key: any machine that responds at the "
    "address receives root's commands and the secrets in them.",
    source="pulumi-command 1.2.1 provider/pkg/provider/remote/connection.go "
    "(InsecureIgnoreHostKey)",
    whole=True,
)

TWIN = HOST_COMMANDS

EXAMPLE = Example(HOST_COMMAND, re.sub(r"  hostKey: .*\n", "", HOST_COMMAND))
