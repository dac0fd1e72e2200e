"""Attack: the output of a compromised host must not stop the inspection of the other hosts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncssh
import pulumi
import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.command import HostsArgs
from gpu_cluster.hosts.component import HostPreparation
from gpu_cluster.hosts.copies import Copies
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.hosts.observed.probe import LONGEST, parse
from gpu_cluster.nodes.inspect import gpus
from gpu_cluster.platforms.findings import numbers
from gpu_cluster.ssh.answers import ANSWER
from tests.mocks import LOOP
from tests.proofs.attacks.samples import cluster
from tests.toolchain.plugins.rig import Failed, Plugin

LIMIT = 20.0


class Answering(asyncssh.SSHServer):
    """SSH server that accepts any client key."""

    def begin_auth(self, username: str) -> bool:
        return False


async def _serve(answer: bytes, endless: bool) -> tuple[asyncssh.SSHAcceptor, str]:
    key = asyncssh.generate_private_key("ssh-ed25519")

    async def handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            process.stdout.write(answer)
            while endless:
                process.stdout.write(b"x" * 65536)
                await process.stdout.drain()
            process.exit(0)

    server = await asyncssh.create_server(
        Answering, "127.0.0.1", 0, server_host_keys=[key], process_factory=handle, encoding=None
    )
    return server, key.export_public_key().decode().strip()


@contextlib.asynccontextmanager
async def hosts(*answers: tuple[bytes, bool]) -> AsyncIterator[list[Any]]:
    """Start SSH servers on loopback that answer the host probe with the given bytes.

    If the flag is set, a server repeats its bytes endlessly.
    """
    servers, declared = [], []
    for number, (answer, endless) in enumerate(answers):
        server, key = await _serve(answer, endless)
        servers.append(server)
        host = {"name": f"gpu-{number}", "address": "127.0.0.1", "port": server.get_port()}
        fields = host | {
            "user": "root",
            "host_key": key,
            "bastion": None,
            "login_seconds": LIMIT,
            "node": "n",
            "role": "gpu-worker",
        }
        declared.append(type("Host", (), fields))
    try:
        yield declared
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()


GOOD = b"os=debian\nnvidia_devices=8\nend=ok\n"
BLINDING = {
    "a superscript": b"nvswitches=\xc2\xb2\nend=ok\n",
    "400 digits": b"nvswitches=" + b"9" * 400 + b"\nend=ok\n",
    "5,000 digits": b"nvidia_devices=" + b"9" * 5_000 + b"\nclock=" + b"9" * 5_000 + b"\nend=ok\n",
    "no UTF-8": b"os=\xff\xfe\nend=ok\n",
    "NUL": b"os=\x00\x00\nend=ok\n",
}


@pytest.mark.parametrize("answer", BLINDING.values(), ids=BLINDING.keys())
def test_one_host_blinds_the_inspection_of_no_other(answer: bytes) -> None:
    async def run() -> dict[str, Any]:
        key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
        async with hosts((answer, False), (GOOD, False)) as declared:
            return await observe_hosts(declared, key, LIMIT)

    result = asyncio.run(run())
    assert (result["gpu-1"].nvidia_devices, result["gpu-1"].error) == (8, "")
    assert result["gpu-0"].nvswitches == 0


def test_an_endless_answer_ends_at_its_bound_and_names_the_host() -> None:
    async def run() -> tuple[dict[str, Any], float]:
        key = asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode()
        async with hosts((b"", True), (GOOD, False)) as declared:
            began = time.monotonic()
            return await observe_hosts(declared, key, LIMIT), time.monotonic() - began

    result, seconds = asyncio.run(run())
    assert f"the host answered more than {ANSWER} bytes" in result["gpu-0"].error
    assert result["gpu-1"].nvidia_devices == 8
    # The inspection ended because of the size limit, not because of the time limit.
    assert seconds < LIMIT


def test_what_a_host_says_reaches_no_terminal_as_an_instruction() -> None:
    facts = parse(["os=\x1b]0;owned\x07", "drift=prepare /etc/\x1b[2J", "now=" + "x" * 10_000])
    assert facts.os == "\\x1b]0;owned\\x07"
    assert facts.drift == {"prepare": ("/etc/\\x1b[2J",)}
    assert len(facts.now) < LONGEST + 50


@pytest.mark.parametrize("text", ["²", "9" * 5_000, "1e9", "16Ei", "-8", "", "٣", "8\n"])
def test_a_node_s_number_of_gpus_is_a_small_number(text: str) -> None:
    assert gpus({"status": {"allocatable": {"nvidia.com/gpu": text}}}) == 0


def test_versions_of_any_length_are_read_within_bounds() -> None:
    assert numbers("v1.34.4") == (1, 34)
    assert numbers("9" * 10_000 + "." + "9" * 10_000)[1] < 10**6


def test_every_command_on_a_host_has_an_end_on_this_side(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Recorded:
        def __init__(self, _: str, **inputs: Any) -> None:
            seen.append(inputs["opts"].custom_timeouts)

    monkeypatch.setattr("pulumi_command.remote.Command", Recorded)
    monkeypatch.setattr(pulumi.ComponentResource, "__init__", lambda *_: None)
    monkeypatch.setattr(Copies, "__init__", lambda *_: None)
    monkeypatch.setattr(Copies, "before", lambda *_: None)
    monkeypatch.setattr(Copies, "want", lambda *_: None)
    monkeypatch.setattr(pulumi.ComponentResource, "register_outputs", lambda *_: None)
    asyncio.set_event_loop(LOOP)
    try:
        declared = cluster()
        copies = Copies("steps", "key")
        hosts = resolve(declared, "dev").hosts
        HostPreparation("hosts", HostsArgs(hosts=hosts, private_key="key", copies=copies))
    finally:
        asyncio.set_event_loop(None)
    assert [(timeouts.create, timeouts.update, timeouts.delete) for timeouts in seen] == [
        ("860s",) * 3
    ]


def test_a_command_that_prints_without_end_fails_and_keeps_a_bounded_part() -> None:
    plugin = Plugin()
    try:
        with pytest.raises(Failed, match="wanted at most 16777216"):
            plugin.create(
                "command:local:Command",
                create="head -c 20000000 /dev/zero | tr '\\0' x",
                logging="none",
            )
    finally:
        plugin.close()
