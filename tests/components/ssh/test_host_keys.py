"""Host keys come from known_hosts files, or from servers that present them."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import asyncssh
import pytest

from gpu_cluster.ssh.host_keys import fingerprint_of, known, presented, scanned
from gpu_cluster.ssh.login import LoginFailed, Stage


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


@pytest.fixture(scope="module")
def keys() -> dict[str, asyncssh.SSHKey]:
    kinds = ("ssh-ed25519", "ecdsa-sha2-nistp256")
    return {kind: asyncssh.generate_private_key(kind) for kind in kinds}


def test_the_best_key_of_each_place_is_taken_and_revoked_keys_are_not(
    keys: dict[str, asyncssh.SSHKey], tmp_path: Path
) -> None:
    best, other = (public(key) for key in keys.values())
    file = tmp_path / "known_hosts"
    file.write_text(
        f"192.0.2.1,gpu-1 {other}\n192.0.2.1 {best}\n"
        f"[192.0.2.2]:2222 {other}\n"
        f"192.0.2.3 {best}\n@revoked 192.0.2.3 {best}\n"
        f"@cert-authority *.example.com {best}\n"
    )
    places = [("192.0.2.1", 22), ("192.0.2.2", 2222), ("192.0.2.2", 22), ("192.0.2.3", 22),
              ("a.example.com", 22)]  # fmt: skip
    assert known([tmp_path / "missing", file], places) == {
        ("192.0.2.1", 22): best,
        ("192.0.2.2", 2222): other,
    }


def test_a_malformed_file_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"\xff\x00 not a key\n@nonsense\n")
    assert known([file], [("192.0.2.1", 22)]) == {}


def test_a_server_presents_its_key_without_a_login(keys: dict[str, asyncssh.SSHKey]) -> None:
    key = keys["ssh-ed25519"]

    async def scan() -> dict[tuple[str, int], str]:
        async with asyncssh.listen("127.0.0.1", 0, server_host_keys=[key]) as server:
            port = server.get_port()
            found = await scanned([("127.0.0.1", port)])
            return {("127.0.0.1", 0): found["127.0.0.1", port]}

    found = asyncio.run(scan())
    assert found == {("127.0.0.1", 0): public(key)}
    assert fingerprint_of(public(key)).startswith("ssh-ed25519 SHA256:")


def test_a_place_without_a_server_has_no_key() -> None:
    assert asyncio.run(scanned([("127.0.0.1", 1)])) == {}


@pytest.mark.promise("A scan of a host's key that a second try heals is tried again.")
def test_a_scan_that_a_second_try_heals_is_tried_again() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    connections = 0

    async def scan() -> str:
        async with asyncssh.listen("127.0.0.1", 0, server_host_keys=[key]) as server:

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal connections
                connections += 1
                if connections == 1:
                    writer.write(b"Exceeded MaxStartups\r\n")
                    writer.close()
                    return
                there, forth = await asyncio.open_connection("127.0.0.1", server.get_port())
                for source, sink in ((there, writer), (reader, forth)):
                    tasks.append(asyncio.create_task(passed(source, sink)))

            tasks: list[asyncio.Task[None]] = []
            async with await asyncio.start_server(relay, "127.0.0.1", 0) as front:
                place = ("127.0.0.1", front.sockets[0].getsockname()[1])
                found = await presented(place, pauses=(0.1,))
                await asyncio.gather(*tasks)
                return found

    assert asyncio.run(scan()) == public(key)
    assert connections == 2


async def passed(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass bytes on until the source ends."""
    with contextlib.suppress(OSError):
        while part := await source.read(4096):
            sink.write(part)
    sink.close()


def test_a_failed_scan_names_its_stage_and_what_the_server_printed() -> None:
    async def scan(greeting: bytes) -> LoginFailed:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            await writer.drain()
            await reader.read(64)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            with pytest.raises(LoginFailed) as raised:
                await presented(("127.0.0.1", server.sockets[0].getsockname()[1]), pauses=())
        return raised.value

    refused = asyncio.run(scan(b"Exceeded MaxStartups\r\n")).failure
    assert (refused.stage, refused.words) == (Stage.MAX_STARTUPS, ("Exceeded MaxStartups",))
    assert "raise MaxStartups" in refused.cure
    other = asyncio.run(scan(b"220 mail.example.com ESMTP\r\n")).failure
    assert (other.stage, other.words) == (Stage.GREETING, ("220 mail.example.com ESMTP",))
