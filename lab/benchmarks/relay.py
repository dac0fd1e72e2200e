"""TCP relay that adds network delay, and cuts connections on request.

The relay simulates a distant network on kernels without netem, in the same way for every measured
tool. `python -m lab.benchmarks.relay MILLISECONDS LISTEN:TARGET…` runs until its standard input is
closed.
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
    """TCP relay between loopback ports, which runs in a separate thread."""

    def __init__(self, ports: Mapping[int, int], delay: float = 0.0) -> None:
        """Store ports and delay; the relay starts when its context is entered.

        Args:
            ports: Target ports by the port on which the relay listens.
            delay: Delay in seconds of each byte, in each direction.
        """
        self._ports = ports
        self._delay = delay
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Relay:
        """Start listening on all ports."""
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
        """Abort every open connection immediately, as if the network cable were pulled."""

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
                # The TCP handshake over a real network would take one round trip.
                await asyncio.sleep(2 * self._delay)
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                writer.transport.abort()
                return
            pair = {writer, far_writer}
            self._open |= pair
            try:
                # Suppress the cancellation: in CPython 3.11, asyncio's server logs a cancelled
                # connection task as an error.
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
        """Forward bytes, each chunk after the delay.

        Several chunks may be delayed at the same time.
        """
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
    """Run the relay of the command line until standard input is closed."""
    milliseconds, *pairs = sys.argv[1:]
    ports = {int(a): int(b) for a, b in (pair.split(":") for pair in pairs)}
    with Relay(ports, float(milliseconds) / 1000):
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
