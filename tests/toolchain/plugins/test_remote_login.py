"""Tests of SSH logins: host keys, client keys, jump hosts and limits of attempts."""

from __future__ import annotations

from pathlib import Path

import asyncssh
import pytest

from tests.toolchain.plugins.rig import Failed, Plugin, RigHost, free_port

COMMAND = "command:remote:Command"


def test_a_wrong_host_key_is_refused_at_once_and_nothing_runs(
    shared_plugin: Plugin, host: RigHost, tmp_path: Path
) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    mark = tmp_path / "ran"
    with pytest.raises(
        Failed,
        match="stage host key: it shows another key than the declared one: ssh-ed25519 SHA256:",
    ) as failure:
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


def test_an_encrypted_key_is_refused_and_not_shown(shared_plugin: Plugin, host: RigHost) -> None:
    key = asyncssh.import_private_key(host.private_key)
    encrypted = key.export_private_key(passphrase="secret", rounds=64).decode()
    with pytest.raises(Failed, match="stage private key: the SSH private key can't") as failure:
        shared_plugin.create(
            COMMAND, connection=host.connection(privateKey=encrypted), create="true"
        )
    assert encrypted.splitlines()[1] not in str(failure.value)


def test_dials_end_at_dial_error_limit(plugin: Plugin, host: RigHost) -> None:
    port = free_port()
    with pytest.raises(Failed, match=r"stage connection: Connection refused \(3 attempts\)"):
        plugin.create(
            COMMAND, connection=host.connection(port=port, dialErrorLimit=2), create="true"
        )
    assert f"Dial 127.0.0.1:{port} 2/2 failed" in plugin.shown


def test_a_refused_key_is_tried_once(shared_plugin: Plugin, host: RigHost) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    with pytest.raises(Failed, match="stage key: it rejected the user or the key") as failure:
        shared_plugin.create(COMMAND, connection=host.connection(privateKey=key), create="true")
    assert "attempts" not in str(failure.value)


def test_a_silent_port_ends_at_per_dial_timeout(shared_plugin: Plugin, host: RigHost) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = host.connection(
            port=silent.getsockname()[1], perDialTimeout=1, dialErrorLimit=0
        )
        with pytest.raises(Failed, match="stage greeting: the port is open, and no SSH server"):
            shared_plugin.create(COMMAND, connection=connection, create="true")


def test_a_proxy_is_used_and_its_host_key_is_held(shared_plugin: Plugin, host: RigHost) -> None:
    connection = host.connection(proxy=host.connection())
    assert shared_plugin.create(COMMAND, connection=connection, create="echo in")["stdout"] == "in"
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    for change, message in (
        ({"hostKey": other}, "at bastion .*, stage host key"),
        ({"port": free_port(), "dialErrorLimit": 0}, "at bastion .*, stage connection"),
    ):
        connection = host.connection(proxy=host.connection(**change))
        with pytest.raises(Failed, match=message):
            shared_plugin.create(COMMAND, connection=connection, create="true")
    behind = host.connection(proxy=host.connection(), hostKey=other)
    with pytest.raises(Failed, match=r"at host 127\.0\.0\.1:\d+, stage host key"):
        shared_plugin.create(COMMAND, connection=behind, create="true")
