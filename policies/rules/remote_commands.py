"""Commands on hosts: Pulumi's `command:remote` resources, given as manifests of `command/remote`.

Inputs: pulumi-command 1.2.1 provider/pkg/provider/remote. Secrets carry the mark of `secret`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.rules.context import Context, Severity
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.secret import is_secret, reveal
from policies.rules.unknown import UNKNOWN, at, mapping, text

API_VERSION: Final = "command/remote"
_CREDENTIALS = ("password", "privateKey", "privateKeyPassword")
_TEXTS = ("create", "update", "delete", "stdin")
_KEY_MARK = "PRIVATE KEY-----"
_UNDONE = frozenset({"Command"})


def _connections(subject: Subject) -> Iterator[tuple[str, object, bool]]:
    """The connection and its proxy: path, inputs, whether the whole of it is a secret."""
    if subject.group_version != API_VERSION:
        return
    given = subject.manifest.get("connection")
    connection, hidden = reveal(given), is_secret(given)
    if connection is None:
        return
    yield "connection", connection, hidden
    proxy = at(connection, "proxy")
    if proxy is not None:
        yield "connection.proxy", reveal(proxy), hidden or is_secret(proxy)


def _host_key(subject: Subject, _: Context) -> Iterator[Finding]:
    for path, connection, _hidden in _connections(subject):
        key = reveal(at(connection, "hostKey"))
        if key is not UNKNOWN and not text(key).strip():
            yield Finding(
                path=f"{path}.hostKey",
                found="none, so any host is believed",
                wanted="the host's public key, such as ssh-ed25519 AAAA…",
                cure="Take it from /etc/ssh/ssh_host_ed25519_key.pub of the host.",
            )


def _no_clear_secret(subject: Subject, _: Context) -> Iterator[Finding]:
    for path, connection, hidden in _connections(subject):
        for name in _CREDENTIALS:
            value = at(connection, name)
            if not hidden and text(value):
                yield _clear(f"{path}.{name}")
    if subject.group_version != API_VERSION:
        return
    texts = {name: subject.manifest.get(name) for name in _TEXTS}
    environment = mapping(subject.manifest.get("environment"))
    texts |= {f"environment[{name}]": value for name, value in environment.items()}
    for path, value in texts.items():
        if _KEY_MARK in text(value):
            yield _clear(path)


def _clear(path: str) -> Finding:
    return Finding(
        path=path,
        found="a secret in clear",
        wanted="a secret of the stack",
        cure="Give it as pulumi.Output.secret(…), or by `pulumi config set --secret`.",
    )


def _quiet(subject: Subject, _: Context) -> Iterator[Finding]:
    if subject.group_version != API_VERSION or subject.kind != "Command":
        return
    environment = subject.manifest.get("environment")
    hidden = [name for name in _TEXTS if is_secret(subject.manifest.get(name))]
    if is_secret(environment) or any(map(is_secret, mapping(environment).values())):
        hidden.append("environment")
    logging = subject.manifest.get("logging")
    if hidden and logging is not UNKNOWN and logging != "none":
        yield Finding(
            path="logging",
            found=f"{text(logging)[:20] or 'the default, both streams'}, beside {hidden[0]}, "
            "which is a secret",
            wanted="none",
            cure="Set logging: none; what the command prints goes to the engine's log in clear.",
        )


def _undone(subject: Subject, _: Context) -> Iterator[Finding]:
    if subject.group_version != API_VERSION or subject.kind not in _UNDONE:
        return
    if subject.manifest.get("create") is not None and subject.manifest.get("delete") is None:
        yield Finding(
            path="delete",
            found="no undo",
            wanted="a command that takes back what create did",
            cure="Give delete; give update too, or create runs again on every change.",
        )


RULES = (
    Rule(
        id="GPU056",
        title="A host is known by its key",
        severity=Severity.MANDATORY,
        check=_host_key,
        why="Without hostKey the command plugin accepts any key: whoever answers at that address "
        "gets root's commands and what is in them.",
        source="pulumi-command 1.2.1 provider/pkg/provider/remote/connection.go "
        "(InsecureIgnoreHostKey)",
        whole=True,
    ),
    Rule(
        id="GPU057",
        title="No secret stands in clear in a command",
        severity=Severity.MANDATORY,
        check=_no_clear_secret,
        why="Inputs in clear are in the state, in previews and in error texts; the command plugin "
        "prints the whole command when it fails.",
        source="pulumi-command issues 260, 401, 773; provider/pkg/provider/remote/command.go",
    ),
    Rule(
        id="GPU058",
        title="A command with secret inputs logs nothing",
        severity=Severity.MANDATORY,
        check=_quiet,
        why="The command plugin logs standard output and error line by line, whether or not its "
        "inputs are secrets.",
        source="pulumi-command 1.2.1 provider/pkg/provider/common LogOutput; issues 260, 401",
        whole=True,
    ),
    Rule(
        id="GPU059",
        title="A command on a host has its undo",
        severity=Severity.ADVISORY,
        check=_undone,
        why="Without delete, `pulumi destroy` leaves on the host what create wrote.",
        source="pulumi-command 1.2.1 provider/pkg/provider/remote/commandController.go",
        whole=True,
    ),
)
