"""Attack: a host or a network attacker tries to get SSH keys or a weak SSH connection."""

from __future__ import annotations

import asyncio
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import asyncssh
import pytest

from gpu_cluster.hosts.observed import inspect
from tests.toolchain.plugins.rig import Failed, Plugin

WEAK: dict[str, dict[str, Any]] = {
    "key exchange": {"kex_algs": ["diffie-hellman-group14-sha1"]},
    "MAC": {"mac_algs": ["hmac-sha1"], "encryption_algs": ["aes128-ctr"]},
    "MAC, encrypt then": {
        "mac_algs": ["hmac-sha1-etm@openssh.com"],
        "encryption_algs": ["aes128-ctr"],
    },
    "signature": {"signs_by": b"ssh-rsa"},
    "compression": {"compression_algs": ["zlib@openssh.com"]},
}


class Server(asyncssh.SSHServer):
    """SSH server that accepts one key and records all keys that clients offer."""

    taken = ""
    shown: ClassVar[list[str]] = []

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self.shown.append(key.get_fingerprint())
        return key.get_fingerprint() == self.taken


async def _run(process: asyncssh.SSHServerProcess[str]) -> None:
    process.stdout.write("end=ok\n")
    process.exit(0)


@asynccontextmanager
async def served(signs_by: bytes = b"", **options: Any) -> AsyncIterator[dict[str, Any]]:
    """Start an SSH server that accepts one key.

    Yield how to connect, and the keys offered to it.
    """
    own = asyncssh.generate_private_key("ssh-rsa" if signs_by else "ssh-ed25519")
    user = asyncssh.generate_private_key("ssh-ed25519")
    (pair,) = asyncssh.load_keypairs([own])
    if signs_by:
        pair.host_key_algorithms = [signs_by]
    kind = type("One", (Server,), {"taken": user.get_fingerprint(), "shown": []})
    options |= {"server_factory": kind, "server_host_keys": [pair], "process_factory": _run}
    async with asyncssh.listen("127.0.0.1", 0, **options) as server:
        yield {
            "port": server.get_port(),
            "host_key": own.export_public_key().decode().strip(),
            "private_key": user.export_private_key().decode(),
            "fingerprint": user.get_fingerprint(),
            "shown": kind.shown,
            "server": kind,
        }


@asynccontextmanager
async def agent() -> AsyncIterator[Path]:
    """Start an SSH agent with one key (draft-ietf-sshm-ssh-agent, 4.4); yield its socket's path."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    blob = key.public_data

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while size := await reader.read(4):
            await reader.readexactly(struct.unpack(">I", size)[0])
            answer = struct.pack(">BII", 12, 1, len(blob)) + blob + struct.pack(">I", 0)
            writer.write(struct.pack(">I", len(answer)) + answer)
            await writer.drain()
        writer.close()

    # A socket path has at most 108 characters (unix(7)), and pytest's temporary folder may have a
    # longer path.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder) / "agent"
        async with await asyncio.start_unix_server(serve, path):
            yield path


def by_plugin(socket: Path | None) -> Callable[[dict[str, Any]], Awaitable[None]]:
    """Return a function that logs in to a server through the process of the command plugin."""

    def run(server: dict[str, Any]) -> None:
        plugin = Plugin({"SSH_AUTH_SOCK": str(socket)} if socket else {})
        try:
            plugin.create(
                "command:remote:Command",
                create="true",
                connection={
                    "host": "127.0.0.1",
                    "port": server["port"],
                    "user": "root",
                    "privateKey": server["private_key"],
                    "hostKey": server["host_key"],
                    "dialErrorLimit": 0,
                    "perDialTimeout": 10,
                },
            )
        finally:
            plugin.close()

    return lambda server: asyncio.to_thread(run, server)


async def by_inspection(server: dict[str, Any]) -> None:
    """Log in to the server with the same client code as the inspection."""
    fields = {"name": "gpu-1", "address": "127.0.0.1", "user": "root", "bastion": None}
    fields["login_seconds"] = 15
    host = type("Host", (), {**fields, "port": server["port"], "host_key": server["host_key"]})
    facts = await inspect.observe_hosts([host], server["private_key"])  # type: ignore[list-item]
    if facts["gpu-1"].error:
        raise Failed(facts["gpu-1"].error)


def test_a_host_is_shown_no_key_that_was_not_declared_for_it() -> None:
    async def run() -> None:
        async with agent() as socket, served() as server:
            await by_plugin(socket)(server)
            # The server accepts no key, so that a careless client would offer every key that it
            # has.
            server["server"].taken = "none"
            with pytest.raises(Failed, match="stage key: it rejected the user or the key"):
                await by_plugin(socket)(server)
            assert set(server["shown"]) == {server["fingerprint"]}

    asyncio.run(run())


@pytest.mark.filterwarnings("ignore:Diffie-Hellman over finite fields")
@pytest.mark.parametrize("weak", WEAK.values(), ids=WEAK.keys())
@pytest.mark.parametrize("log_in", [by_plugin(None), by_inspection], ids=["plugin", "inspection"])
def test_nothing_rests_on_sha1_and_nothing_is_compressed(log_in: Any, weak: dict[str, Any]) -> None:
    async def run() -> None:
        async with served(b"rsa-sha2-256" if "signs_by" in weak else b"") as server:
            await log_in(server)
        async with served(**weak) as server:
            with pytest.raises(Failed):
                await log_in(server)
            assert server["shown"] == []

    asyncio.run(run())
