"""The order of a rollout: control plane one by one, a canary, then so many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from components.kubernetes.api import ClusterError
from policies.faults import Fault
from policies.printable import shortened

T = TypeVar("T")

NAMED = 10
"""Of those that were not begun; the others are counted."""


async def in_waves(
    alone: Sequence[T],
    rest: Sequence[T],
    at_once: int,
    change: Callable[[T], Awaitable[None]],
    name: Callable[[T], str],
) -> None:
    """Changes all of them; after the first failure no other one is begun.

    A slow node keeps none waiting but itself: the next begins when one is done.

    Args:
        alone: those of which never two are changed at once, before all others.
        rest: the others; the first is the canary.
        at_once: how many of ``rest`` at most.
        change: changes one.
        name: what an error calls it.

    Raises:
        ClusterError: what failed, and which were not begun; those under way have ended.
    """
    waiting = [*alone, *rest]
    faults: list[Fault] = []

    async def work(until: int) -> None:
        while not faults and len(waiting) > until:
            item = waiting.pop(0)
            try:
                await change(item)
            except ClusterError as error:
                faults.extend(error.faults)

    await work(until=max(0, len(rest) - 1))
    await asyncio.gather(*(work(until=0) for _ in range(min(at_once, len(waiting)))))
    if faults:
        raise ClusterError(*faults, *not_begun([name(item) for item in waiting]))


def not_begun(names: Sequence[str]) -> list[Fault]:
    """What is said of those that a failure left as they were; nothing where there are none."""
    if not names:
        return []
    return [
        Fault(
            f"rollout: {shortened(names, NAMED)}",
            "not begun, so as before",
            "a rollout without a failure",
            "mend what failed above, then run `up`: it goes on where it stopped",
        )
    ]
