"""Order of a rollout: control plane nodes one by one, then a canary, then several in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gpu_cluster.kubernetes.api import ClusterError
from gpu_rules.faults import Fault
from gpu_rules.printable import shortened

T = TypeVar("T")

NAMED = 10
"""Maximum number of items not started that a message names; other items are only counted."""


async def in_waves(
    alone: Sequence[T],
    items: Sequence[T],
    at_once: int,
    change: Callable[[T], Awaitable[None]],
    name: Callable[[T], str],
    later: Sequence[T] = (),
) -> None:
    """Change all items in waves; after the first failure no other item is started.

    A slow item does not delay other items: the next item starts as soon as any item is done.

    Args:
        alone: Items that are changed one at a time, before all others.
        items: All other items; the first of them is the canary.
        at_once: Maximum number of items of `items` that are changed at the same time.
        change: Changes one item.
        name: Returns an item's name for errors.
        later: Items that somebody else changes after these, for errors.

    Raises:
        ClusterError: An item failed; the error also names the items that were not started. Items in
            progress have finished by then.
    """
    waiting = [*alone, *items]
    faults: list[Fault] = []

    async def work(until: int) -> None:
        while not faults and len(waiting) > until:
            item = waiting.pop(0)
            try:
                await change(item)
            except ClusterError as error:
                faults.extend(error.faults)

    await work(until=max(0, len(items) - 1))
    await asyncio.gather(*(work(until=0) for _ in range(min(at_once, len(waiting)))))
    if faults:
        raise ClusterError(*faults, *not_begun([name(item) for item in [*waiting, *later]]))


def not_begun(names: Sequence[str]) -> list[Fault]:
    """Return a fault that names the items that were not started; an empty result if all were."""
    if not names:
        return []
    return [
        Fault(
            f"rollout: {shortened(names, NAMED)}",
            "not started, because an earlier node failed",
            "a rollout without a failure",
            "fix the failure above, then run `up`: it continues where it stopped",
        )
    ]
