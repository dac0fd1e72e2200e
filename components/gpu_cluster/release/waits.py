"""Say why a Helm release is not ready, while Helm waits for it and when its time limit has passed.

Helm itself reports only "context deadline exceeded" (pulumi-kubernetes#4389). Hooks of the release
read its workloads, their pods and events in the meantime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pulumi

from gpu_cluster import hooks
from gpu_cluster.kubernetes.api import connect
from gpu_cluster.nodes.causes import workloads
from gpu_rules.faults import FaultError

EVERY = 10.0
"""Seconds between two readings of the release's workloads."""
LIMIT = 30.0
"""Maximum seconds of one reading."""


async def why(context: str, namespace: str, name: str) -> list[str]:
    """Return why a release's workloads are not ready, a line for each cause; empty if none is late.

    Raises:
        ClusterError: The cluster can't be read.
    """
    async with connect(context) as client:
        late = await workloads.late_of_release(client, namespace, name)
        return await workloads.lines_of(client, late)


@dataclass
class Waiting:
    """Reading of a release's workloads while Helm waits.

    A cause is printed once, when two readings in a row found it: most causes of a normal start are
    gone at the second reading.

    Attributes:
        place: Namespace and name of the release, for messages.
        read: Function that returns the lines about workloads that are not ready.
        say: Function that prints a line.
        every: Seconds between two readings.
    """

    place: str
    read: Callable[[], list[str]]
    say: Callable[[str], None]
    every: float = EVERY
    _before: set[str] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None

    def report(self) -> None:
        """Read once, and print the causes that the last reading also found."""
        lines = self._read()
        for line in lines:
            if line in self._before and line not in self._said:
                self._said.add(line)
                self.say(f"release {self.place} waits: {line}")
        self._before = set(lines)

    def _read(self) -> list[str]:
        # Helm reports a cluster that can't be read; the next attempt reads again.
        try:
            return self.read()
        except (FaultError, TimeoutError, OSError):
            return []

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.every)
            await asyncio.to_thread(self.report)

    async def start(self) -> None:
        """Start to read in the background."""
        await self.end()
        self._task = asyncio.create_task(self._watch())

    async def end(self) -> None:
        """Stop to read. A failure of the reading never fails the release."""
        if self._task is None:
            return
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()):
            pulumi.log.debug(f"release {self.place}: its causes can't be read: {error!r}")

    async def failed(self) -> list[str]:
        """Stop to read, and return why the release is not ready now."""
        await self.end()
        return await asyncio.to_thread(self._read)


def waiting(context: str, namespace: str, release: str, name: str) -> pulumi.ResourceHookBinding:
    """Return hooks that say why a release is not ready.

    Args:
        namespace: Namespace of the release.
        release: Name of the release.
        name: Name of the release's Pulumi resource; it makes the hooks' names unique.
    """
    place = f"{namespace}/{release}"

    def read() -> list[str]:
        # A separate event loop keeps the Pulumi SDK's event loop responsive.
        return asyncio.run(asyncio.wait_for(why(context, namespace, release), LIMIT))

    watch = Waiting(place, read, pulumi.log.info)

    async def failed() -> None:
        for line in await watch.failed():
            pulumi.log.error(f"release {place} is not ready: {line}")

    return hooks.around(f"wait-{name}", watch.start, watch.end, failed)
