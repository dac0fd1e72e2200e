"""Uploads to a real SSH server over connections that break or become silent halfway."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator

import pytest

from gpu_cluster.ssh import client
from gpu_cluster.ssh.upload import UploadLimits, upload
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.machine import STEPS, Declared, Running

FILES = {bundle.file: bundle.text for bundle in prepare().bundles}
MIDDLE = 20_000
"""Bytes that reach the host before the connection breaks, which is during the upload of files."""
LIMITS = UploadLimits(dials=3, copying=300)


class Link:
    """TCP relay between the uploading program and the host that breaks the first connections."""

    def __init__(self, host: Declared, how: str, broken: int) -> None:
        self.host = host
        self.how = how
        self.broken = broken
        self.connections = 0
        self.cut = 0
        self.tasks: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Declared]:
        """Start the relay; yield the host with the relay's port in place of the host's SSH port."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield dataclasses.replace(self.host, port=port)
        finally:
            server.close()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _carry(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.connections += 1
        breaks = self.connections <= self.broken
        there, forth = await asyncio.open_connection(self.host.address, self.host.port)
        answering = asyncio.create_task(_pass(there, back))
        passed = 0
        try:
            while part := await here.read(4096):
                passed += len(part)
                if breaks and passed > MIDDLE:
                    self.cut += 1
                    answering.cancel()
                    if self.how == "reset":
                        break
                    # A silent connection still reads what the client sends, but sends nothing back.
                    continue
                forth.write(part)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            answering.cancel()
            for writer in (forth, back):
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(65536):
            writer.write(part)
        writer.close()


def copied(host: Running, how: str, broken: int) -> tuple[str, Link]:
    """Upload files to the host through a relay that breaks connections.

    Return the error text (empty if the upload succeeded), and the relay.
    """
    link = Link(host.declared, how, broken)

    async def copy() -> str:
        async with link.open() as reached:
            gate = asyncio.Semaphore(1)
            fault = await upload(reached, host.key, FILES, LIMITS, gate)  # type: ignore[arg-type]
            return str(fault or "")

    return asyncio.run(asyncio.wait_for(copy(), 200)), link


def lying(host: Running) -> set[str]:
    return {name for name in FILES if host.exists(str(STEPS / name))}


@pytest.mark.full
@pytest.mark.promise(
    "A copy to a host whose connection breaks or falls silent in the middle is made again, whole."
)
@pytest.mark.parametrize("how", ["reset", "silent"])
def test_a_copy_that_is_cut_in_the_middle_is_made_again(plain_host: Running, how: str) -> None:
    begun = time.monotonic()
    fault, link = copied(plain_host, how, broken=1)
    assert fault == ""
    assert (link.connections, link.cut > 0) == (2, True)
    assert lying(plain_host) == set(FILES)
    # A broken connection must be noticed long before the time limit for a whole upload.
    assert time.monotonic() - begun < LIMITS.copying / 3


@pytest.mark.full
@pytest.mark.promise(
    "A host whose connection breaks in each copy is named in one line, and has all files or none."
)
@pytest.mark.parametrize("how", ["reset", "silent"])
def test_a_host_that_is_cut_off_each_time_is_named(plain_host: Running, how: str) -> None:
    fault, link = copied(plain_host, how, broken=LIMITS.dials)
    assert link.connections == LIMITS.dials
    assert fault.startswith("host gpu-1: found no login as root at host 127.0.0.1:")
    assert "(3 attempts)" in fault
    assert "\n" not in fault
    assert lying(plain_host) == set()


def test_every_connection_has_a_limit_of_silence(
    plain_host: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection uses SSH keepalive messages.

    A short interval makes this test fast.
    """
    monkeypatch.setitem(client.KEEPALIVE, "keepalive_interval", 0.2)
    fault, link = copied(plain_host, "silent", broken=1)
    assert (fault, link.connections) == ("", 2)
    assert lying(plain_host) == set(FILES)
