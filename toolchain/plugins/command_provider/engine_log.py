"""Messages to the engine."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

_FLUSH_LIMIT = 5
"""Seconds that a finished command waits for its last lines to reach the engine."""

_BATCH = 32768
"""Characters: lines that wait are sent together up to this."""


class EngineLog:
    """The engine's `Log` service; without an address messages are dropped."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address) if address else None
        self._stub = engine_pb2_grpc.EngineStub(self._channel) if self._channel else None

    async def send(self, severity: int, message: str, urn: str, *, ephemeral: bool) -> None:
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
    """Messages about one resource, sent in order by one task.

    Lines of output are status messages, as in the official plugin: shown while the resource is
    worked on, not repeated at the end.
    """

    def __init__(self, engine: EngineLog, urn: str) -> None:
        self._engine = engine
        self._urn = urn
        self._lines: list[str] = []
        self._sender: asyncio.Task[None] | None = None
        self._warnings: list[str] = []

    def status(self, line: str) -> None:
        self._lines.append(line)
        self._wake()

    def warning(self, text: str) -> None:
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
        taken, lines[:] = list(lines), []
        return taken

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
        if self._sender is not None:
            with suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(self._sender), _FLUSH_LIMIT)
