"""Send log messages to the Pulumi engine."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

_FLUSH_LIMIT = 5
"""Seconds that a finished command waits until its last lines have been sent to the engine."""

_BATCH = 32768
"""Maximum number of characters of waiting lines that are sent in one message."""


class EngineLog:
    """Client of the Pulumi engine's `Log` service; without an address, it drops messages."""

    def __init__(self, address: str) -> None:
        """Connect to the engine at an address such as ``127.0.0.1:40000``."""
        # The engine is on loopback, which no proxy of the environment reaches.
        options = (("grpc.enable_http_proxy", 0),)
        self._channel = grpc.aio.insecure_channel(address, options=options) if address else None
        self._stub = engine_pb2_grpc.EngineStub(self._channel) if self._channel else None

    async def send(self, severity: int, message: str, urn: str, *, ephemeral: bool) -> None:
        """Send a message to the engine and ignore errors.

        An ephemeral message is only shown while the resource is being worked on.
        """
        if self._stub is None:
            return
        with suppress(grpc.RpcError):
            await self._stub.Log(
                engine_pb2.LogRequest(
                    severity=severity,  # type: ignore[arg-type]
                    message=message,
                    urn=urn,
                    ephemeral=ephemeral,
                ),
                timeout=_FLUSH_LIMIT,
            )


class ResourceLog:
    """Log of one resource: one task sends its messages to the engine in order.

    Lines of output are status messages, as in the official plugin: they are shown while the
    operation runs and not repeated at the end.
    """

    def __init__(self, engine: EngineLog, urn: str) -> None:
        """Prepare a log for messages about the resource with this URN."""
        self._engine = engine
        self._urn = urn
        self._lines: list[str] = []
        self._sender: asyncio.Task[None] | None = None
        self._warnings: list[str] = []

    def status(self, line: str) -> None:
        """Queue a line of a command's output as a status message."""
        self._lines.append(line)
        self._wake()

    def warning(self, text: str) -> None:
        """Queue a warning about the resource."""
        self._warnings.append(text)
        self._wake()

    def _wake(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        while self._lines or self._warnings:
            for text in self._take(self._warnings):
                await self._engine.send(engine_pb2.WARNING, text, self._urn, ephemeral=False)
            batch = self._batch()
            if batch:
                await self._engine.send(engine_pb2.INFO, batch, self._urn, ephemeral=True)

    @staticmethod
    def _take(lines: list[str]) -> list[str]:
        taken_lines, lines[:] = list(lines), []
        return taken_lines

    def _batch(self) -> str:
        size = count = 0
        for line in self._lines:
            size += len(line) + 1
            if count and size > _BATCH:
                break
            count += 1
        batch, self._lines = self._lines[:count], self._lines[count:]
        return "\n".join(batch)

    async def flush(self) -> None:
        """Wait until the queued messages have been sent, at most `_FLUSH_LIMIT` seconds."""
        if self._sender is not None:
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(self._sender), _FLUSH_LIMIT)
