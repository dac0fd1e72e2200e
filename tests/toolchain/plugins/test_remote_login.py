"""Tests of SSH logins: host keys, client keys, passwords, jump hosts and limits of attempts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncssh
import pytest

from tests.toolchain.plugins.rig import LIMIT, Failed, Plugin, RigHost, free_port

COMMAND = "command:remote:Command"
CANARY = "canary-7f3a91c2"


def test_a_wrong_host_key_is_refused_at_once_and_nothing_runs(
    shared_plugin: Plugin, host: RigHost, tmp_path: Path
) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    mark = tmp_path / "ran"
    with pytest.raises(Failed, match="host key mismatch: found ssh-ed25519 SHA256:") as failure:
        shared_plugin.create(
            COMMAND,
            connection=host.connection(hostKey=other.export_public_key().decode()),
            create=f"touch {mark}",
        )
    assert str(other.get_fingerprint()) in str(failure.value)
    assert not mark.exists()


def test_a_state_without_host_key_is_refused_at_delete(
    shared_plugin: Plugin, host: RigHost
) -> None:
    connection = {k: v for k, v in host.connection().items() if k != "hostKey"}
    with pytest.raises(Failed, match=f"ssh-keyscan -t ed25519 -p {host.port} 127.0.0.1"):
        shared_plugin.delete(COMMAND, {"connection": connection, "delete": "true"})


def test_an_encrypted_key_opens_with_its_password_only(
    shared_plugin: Plugin, host: RigHost
) -> None:
    key = asyncssh.import_private_key(host.private_key)
    encrypted = key.export_private_key(passphrase=CANARY, rounds=64).decode()
    connection = host.connection(privateKey=encrypted, privateKeyPassword=CANARY)
    assert shared_plugin.create(COMMAND, connection=connection, create="echo in")["stdout"] == "in"
    for wrong in ({"privateKeyPassword": "not it"}, {"privateKeyPassword": None}):
        with pytest.raises(Failed, match="privateKey cannot be read") as failure:
            shared_plugin.create(COMMAND, connection=connection | wrong, create="true")
        assert encrypted.splitlines()[1] not in str(failure.value)


class _PasswordServer(asyncssh.SSHServer):
    """AsyncSSH server that supports only one login method."""

    def __init__(self, method: str) -> None:
        self._method = method

    def password_auth_supported(self) -> bool:
        return self._method == "password"

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("admin", CANARY)

    def kbdint_auth_supported(self) -> bool:
        return self._method == "keyboard-interactive"

    def get_kbdint_challenge(self, *_: object) -> tuple[str, str, str, list[tuple[str, bool]]]:
        return "", "", "", [("Code:", False), ("Again:", False)]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> bool:
        return list(responses) == [CANARY, CANARY]


@pytest.fixture(params=["password", "keyboard-interactive"])
def password_port(request: pytest.FixtureRequest, host: RigHost) -> Iterator[int]:
    loop = asyncio.new_event_loop()

    def answer(process: asyncssh.SSHServerProcess[str]) -> None:
        process.stdout.write("in\n")
        process.exit(0)

    server = loop.run_until_complete(
        asyncssh.create_server(
            lambda: _PasswordServer(request.param),
            "127.0.0.1",
            port=0,
            server_host_keys=[str(host.folder / "host_key")],
            process_factory=answer,
        )
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield server.get_port()

    async def close() -> None:
        server.close()
        await server.wait_closed()

    asyncio.run_coroutine_threadsafe(close(), loop).result(LIMIT)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT)
    loop.close()


def test_a_password_logs_in_by_either_method(
    shared_plugin: Plugin, host: RigHost, password_port: int
) -> None:
    connection = host.connection(
        port=password_port, user="admin", privateKey=None, password=CANARY, dialErrorLimit=0
    )
    assert shared_plugin.create(COMMAND, connection=connection, create="x")["stdout"] == "in"
    with pytest.raises(Failed, match="Permission denied") as failure:
        shared_plugin.create(COMMAND, connection=connection | {"password": "no"}, create="x")
    assert CANARY not in str(failure.value)


def test_dials_end_at_dial_error_limit(plugin: Plugin, host: RigHost) -> None:
    port = free_port()
    with pytest.raises(Failed, match=rf"^127\.0\.0\.1:{port}: no connection .* after 3 attempts"):
        plugin.create(
            COMMAND, connection=host.connection(port=port, dialErrorLimit=2), create="true"
        )
    assert f"Dial 127.0.0.1:{port} 2/2 failed" in plugin.shown


def test_a_refused_key_counts_as_a_failed_dial(shared_plugin: Plugin, host: RigHost) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    with pytest.raises(Failed, match="after 1 attempt: Permission denied"):
        shared_plugin.create(
            COMMAND, connection=host.connection(privateKey=key, dialErrorLimit=0), create="true"
        )


def test_a_silent_port_ends_at_per_dial_timeout(shared_plugin: Plugin, host: RigHost) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = host.connection(
            port=silent.getsockname()[1], perDialTimeout=1, dialErrorLimit=0
        )
        with pytest.raises(Failed, match="after 1 attempt"):
            shared_plugin.create(COMMAND, connection=connection, create="true")


def test_a_proxy_is_used_and_its_host_key_is_held(shared_plugin: Plugin, host: RigHost) -> None:
    connection = host.connection(proxy=host.connection())
    assert shared_plugin.create(COMMAND, connection=connection, create="echo in")["stdout"] == "in"
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    for change, message in (
        ({"hostKey": other}, "^proxy .*host key mismatch"),
        ({"port": free_port(), "dialErrorLimit": 0}, "^proxy .*no connection"),
    ):
        connection = host.connection(proxy=host.connection(**change))
        with pytest.raises(Failed, match=message):
            shared_plugin.create(COMMAND, connection=connection, create="true")
    behind = host.connection(proxy=host.connection(), hostKey=other)
    with pytest.raises(Failed, match=r"^127\.0\.0\.1:\d+: host key mismatch"):
        shared_plugin.create(COMMAND, connection=behind, create="true")
