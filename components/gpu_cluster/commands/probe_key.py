"""Run `gpu-cluster probe-key`: create and check an SSH key for previews.

A preview runs the code of a pull request, so its credentials must allow as little as possible. On
the host, sshd ties this key to one command (authorized_keys in sshd(8): `restrict`, `command`): a
copy of the probe script that belongs to root. Whatever command the holder of the key requests, only
the probe runs. ``PROBE_KEY`` is the path of the private key, by default a file in the cache.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncssh

from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.stack import Stack
from gpu_cluster.desired.host import Target, working
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.observed.probe import PROBE, probe
from gpu_cluster.machine.folders import cache_dir, make_private
from gpu_cluster.ssh.answers import ANSWER, Channel
from gpu_cluster.ssh.client import reached, run
from gpu_cluster.ssh.login import LoginFailed
from gpu_rules.printable import printable

PLACE = "/usr/local/lib/gpu-cluster/probe.sh"
"""Path of the probe script on a host; only root can write the file."""
LIMIT = 30.0
"""Seconds for the checks of one host, after the login."""
_REFUSALS = (asyncssh.Error, asyncssh.ChannelOpenError, asyncssh.ChannelListenError)
_ASKED, _ANSWER = "echo allowed-$((6 * 7))", "allowed-42"
ALLOWED = Channel("allowed", ANSWER, lambda text: _ANSWER in text)
"""Parser of a command's output: True if the host ran our test command instead of the probe."""


def authorized_line(public_key: str, user: str) -> str:
    """Return the line of authorized_keys that allows a public key to run only the probe."""
    sudo = "" if user == "root" else "sudo -n "
    return f'restrict,command="{sudo}timeout -k 1 20 sh {PLACE}" {public_key}'


def make(path: Path) -> asyncssh.SSHKey:
    """Return the private key in a file; create the key if the file is missing.

    Only the file's owner can read it.
    """
    if path.exists():
        return asyncssh.read_private_key(path)
    make_private(path.parent)
    key = asyncssh.generate_private_key("ssh-ed25519", comment="gpu-cluster-probe")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.export_private_key())
    return key


def instructions(public_key: str, user: str, script: Path) -> str:
    """Return the commands for root on each host; the probe's text is their standard input."""
    return (
        f"on each host, as root, with {script} as standard input:\n"
        f"  install -D -o root -g root -m 0755 /dev/stdin {PLACE}\n"
        f"and one line in the authorized_keys of {user}:\n"
        f"  {authorized_line(public_key, user)}"
    )


async def _runs(connection: asyncssh.SSHClientConnection, command: str, text: str) -> bool:
    return (await run(connection, command, text, ALLOWED, LIMIT)).read()


async def allowed(connection: asyncssh.SSHClientConnection) -> list[str]:
    """Return the permissions that a key has on a host beyond running the probe script."""

    async def command() -> bool:
        return await _runs(connection, _ASKED, "")

    async def script() -> bool:
        return await _runs(connection, "sh -s", f"{_ASKED}\n")

    async def files() -> bool:
        async with connection.start_sftp_client() as client:
            return bool(await client.listdir("/"))

    async def dial() -> bool:
        _, writer = await connection.open_connection("127.0.0.1", 22)
        writer.close()
        return True

    async def listen() -> bool:
        listener = await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", 22)
        listener.close()
        return True

    ways: dict[str, Callable[[], Awaitable[bool]]] = {
        "run commands": command,
        "run scripts": script,
        "read files": files,
        "dial from the host": dial,
        "listen on the host": listen,
    }
    commands = []
    for name, way in ways.items():
        try:
            if await asyncio.wait_for(way(), LIMIT / len(ways)):
                commands.append(name)
        except (*_REFUSALS, LoginFailed, OSError, TimeoutError, ValueError):
            continue
    return commands


async def problem_of(host: Target, key: str) -> str:
    """Return why a host is not ready for the key; empty if the key runs only the probe."""
    try:
        async with reached(host, key) as connection:
            try:
                (await run(connection, "true", "", PROBE, LIMIT)).read()
            except ValueError:
                return f"found no probe; wanted: {PLACE} as the key's command; cure: see above"
            more = await allowed(connection)
    except LoginFailed as error:
        why = error.failure
        return f"found {why.found}; wanted: the line above; cure: {why.cure}"
    if more:
        return (
            f"found that the key may {', '.join(more)}; wanted: the probe only; cure: the line "
            "above, and no other line with this key"
        )
    return ""


def check(hosts: tuple[Target, ...], key: str) -> dict[str, str]:
    """Check all hosts in parallel; return the result of `problem_of` by host name."""

    async def run() -> list[str]:
        return list(await asyncio.gather(*(problem_of(host, key) for host in hosts)))

    return dict(zip((host.name for host in hosts), asyncio.run(run()), strict=True))


def main(*, file: str = "") -> None:
    """Create the key, print how to install it on hosts, and check the hosts.

    Exit with 1 if a host is not ready.

    Args:
        file: File of the private key; empty: a file in the cache.
    """
    stack = Stack.current()
    with answering("probe-key") as answer:
        default = cache_dir() / "probe-keys" / stack.name
        _checked(stack, Path(file or default), answer)


def _checked(stack: Stack, path: Path, answer: Answer) -> None:
    key = make(path)
    public = key.export_public_key().decode().strip()
    script = path.with_name(f"{path.name}.sh")
    script.write_text(probe())
    users = dict.fromkeys(host.user for host in stack.cluster.hosts)
    print(f"private key: {path} (the secret PROBE_KEY of the environment preview-{stack.name})")
    for user in users:
        print(instructions(public, user, script))
    hosts = working(resolve(stack.cluster, stack.name).hosts)
    problems = check(hosts, key.export_private_key().decode())
    for name, problem in problems.items():
        if problem:
            print(f"host {name}: {printable(problem)}", file=sys.stderr)
    ready = sum(not problem for problem in problems.values())
    print(f"probe-key: {ready} of {len(problems)} hosts run the probe and nothing else")
    answer |= {"file": str(path), "problems": problems}
    if ready != len(problems):
        sys.exit(1)
