"""A server that closes the connection in the key exchange is explained by what it offered."""

from __future__ import annotations

import asyncio
import struct

import asyncssh
import pytest

from gpu_cluster.settings.hosts.ssh import Bastion
from gpu_cluster.ssh.client import log_in, scan_key
from gpu_cluster.ssh.login import Login, LoginFailed, Stage

KEY_EXCHANGE_OFFER = 20
"""SSH_MSG_KEXINIT (RFC 4253, 12)."""


def _offer(key_exchange: bytes) -> bytes:
    """Return a packet that offers one key exchange and no other algorithm (RFC 4253, 6 and 7.1)."""
    names = [key_exchange, *[b""] * 9]
    payload = bytes([KEY_EXCHANGE_OFFER]) + bytes(16)
    payload += b"".join(struct.pack(">I", len(name)) + name for name in names) + bytes(5)
    padding = 8 - (5 + len(payload)) % 8 + 8
    return struct.pack(">IB", 1 + len(payload) + padding, padding) + payload + bytes(padding)


@pytest.mark.parametrize("is_login", [True, False], ids=["login", "host key"])
def test_algorithms_are_named_if_the_server_closes_the_connection_with_its_offer(
    is_login: bool,
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    public = key.export_public_key().decode().strip()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_6.6\r\n")
        await reader.readuntil(b"\n")
        await reader.readexactly(struct.unpack(">I", await reader.readexactly(4))[0])
        # OpenSSH closes the connection as soon as it has both offers (kex.c, kex_choose_conf).
        writer.write(_offer(b"diffie-hellman-group1-sha1"))
        writer.close()

    async def connect() -> None:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            to = Bastion(address="127.0.0.1", port=port, user="root", host_key=public)
            login = Login(to, seconds=30)
            if is_login:
                declared = asyncssh.import_public_key(public)
                await log_in(login, declared, key, None, is_last=False)
            else:
                await scan_key(login)

    with pytest.raises(LoginFailed) as raised:
        asyncio.run(connect())
    failure = raised.value.failure
    assert failure.stage is Stage.KEY_EXCHANGE
    assert failure.reason.startswith("No matching key exchange algorithm found")
    assert "update its SSH server" in failure.cure
    assert not failure.is_transient
