"""TCP relay in user space that delays data and cuts connections on demand.

It simulates a distant network if the kernel has no netem, in the same way for every tool. `python
-m lab.benchmarks.relay MILLISECONDS LISTEN:TARGET…` runs until its standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType

CHUNK = 65536
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Relay:
    """Relay of loopback ports, in a separate thread."""

    def __init__(self, ports: Mapping[int, int], delay: float = 0.0) -> None:
        """Prepare the relay.

        Args:
            ports: Target port by listening port.
            delay: Delay in seconds of each byte, in each direction.
        """
        self._ports = ports
        self._delay = delay
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Relay:
        """Start listening."""
        self._servers = self._loop.run_until_complete(self._listen())
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections and stop the thread."""
        self.cut()
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        """Abort every connection immediately, like a pulled cable."""

        async def end() -> None:
            for writer in list(self._open):
                writer.transport.abort()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> list[asyncio.Server]:
        return [
            await asyncio.start_server(self._serve(target), "127.0.0.1", port, backlog=512)
            for port, target in self._ports.items()
        ]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _serve(self, target: int) -> Serve:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await asyncio.sleep(2 * self._delay)  # The TCP handshake takes one round trip.
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                writer.transport.abort()
                return
            pair = {writer, far_writer}
            self._open |= pair
            try:
                # The server's callback reports a cancelled task as an error (CPython 3.11).
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.gather(
                        self._pump(reader, far_writer), self._pump(far_reader, writer)
                    )
            finally:
                self._open -= pair
                for side in pair:
                    side.transport.abort()

        return serve

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy bytes, each chunk after the delay; several chunks may be in transit."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        async def send() -> None:
            while True:
                when, data = await queue.get()
                if (wait := when - loop.time()) > 0:
                    await asyncio.sleep(wait)
                if not data:
                    if writer.can_write_eof():
                        writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()

        sending = asyncio.create_task(send())
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                queue.put_nowait((loop.time() + self._delay, data))
        queue.put_nowait((loop.time() + self._delay, b""))
        with contextlib.suppress(OSError):
            await sending


def main() -> None:
    """Run the relay until standard input ends."""
    milliseconds, *pairs = sys.argv[1:]
    ports = {int(a): int(b) for a, b in (pair.split(":") for pair in pairs)}
    with Relay(ports, float(milliseconds) / 1000):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
