"""Attack: code of a pull request uses the SSH key of previews for more than inspecting hosts."""

from __future__ import annotations

import asyncio
import getpass
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest

from gpu_cluster.commands import probe_key
from gpu_cluster.hosts.observed import inspect
from gpu_cluster.hosts.observed.probe import probe
from gpu_cluster.ssh import client
from gpu_cluster.ssh.key_files import PROBE_KEY_FILE
from tests.toolchain.plugins.conftest import host
from tests.toolchain.plugins.rig import RigHost

# `host` is a fixture with a real sshd, which pytest finds by its name in this module.
__all__ = ["host"]


def declared(host: RigHost) -> Any:
    return SimpleNamespace(
        name="gpu-1",
        node="gpu-1",
        role="gpu-worker",
        address="127.0.0.1",
        port=host.port,
        user=getpass.getuser(),
        host_key=host.host_key,
        bastion=None,
        login_seconds=15,
    )


@pytest.fixture
def key(host: RigHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a probe key on a host and return the key.

    The host only lets this SSH key run the inspection.
    """
    place = host.folder / "probe.sh"
    place.write_text(probe())
    monkeypatch.setattr(probe_key, "PLACE", str(place))
    made = probe_key.make(tmp_path / "keys" / "probe")
    line = probe_key.authorized_line(made.export_public_key().decode().strip(), getpass.getuser())
    with (host.folder / "authorized_keys").open("a") as file:
        file.write(line.replace("sudo -n ", "") + "\n")
    return made.export_private_key().decode()


def test_a_probe_key_runs_the_probe_and_nothing_else(
    host: RigHost, key: str, tmp_path: Path
) -> None:
    assert probe_key.check((declared(host),), key) == {"gpu-1": ""}
    mark = tmp_path / "owned"

    async def attack() -> list[str]:
        async with client.reached(declared(host), key) as connection:
            outputs = []
            for command in (f"touch {mark}", "sh", f"$(touch {mark})", "internal-sftp"):
                done = await connection.run(command, input=f"touch {mark}\n", check=False)
                outputs.append(str(done.stdout))
            return outputs

    assert all("end=ok" in output for output in asyncio.run(attack()))
    assert not mark.exists()


def test_an_inspection_by_a_probe_key_finds_the_same(
    host: RigHost, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "probe"
    path.write_text(key)
    monkeypatch.setenv(PROBE_KEY_FILE, str(path))
    used = inspect.inspecting_key("what a preview hasn't got")
    facts = asyncio.run(inspect.observe_hosts([declared(host)], used))["gpu-1"]
    assert (facts.error, facts.kernel) == ("", os.uname().release)


def test_a_key_that_may_do_more_is_named(host: RigHost) -> None:
    (problem,) = probe_key.check((declared(host),), host.private_key).values()
    assert problem.startswith("found no probe")
    result = asyncio.run(_allowed(host))
    assert {"run commands", "run scripts", "read files"} <= set(result)


async def _allowed(host: RigHost) -> list[str]:
    async with client.reached(declared(host), host.private_key) as connection:
        return await probe_key.allowed(connection)


def test_a_host_that_doesn_t_take_the_key_is_named(host: RigHost) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
    (problem,) = probe_key.check((declared(host),), stranger).values()
    assert problem.startswith("found no login")


def test_the_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "probe"
    first = probe_key.make(path).export_public_key()
    assert probe_key.make(path).export_public_key() == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
