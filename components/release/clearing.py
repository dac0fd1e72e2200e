"""What stands in the way of a resource is cleared just before it is made.

A run that is killed between making an object and recording it leaves an object that the state does
not know. Most objects are simply applied again; a Helm release whose name is taken is not. And the
engine deletes after all that it makes, so a device plugin that is no longer declared would serve a
node beside the one that follows it. `components.release.clear` removes them, only where they are
ours. These hooks never run in a preview.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pulumi

from components import hooks
from policies.faults import FaultError

#: Seconds for the clearing of one leftover.
LIMIT = 120

Clear = Callable[[dict[str, Any]], Coroutine[Any, Any, list[str]]]
"""Clears what stands in the way of a resource with these inputs; returns what it removed."""


def clearing(
    kind: str, name: str, clear: Clear, *, creates: bool = True, updates: bool = False
) -> pulumi.ResourceHookBinding:
    """Return a hook that clears what stands in the way of a resource.

    Args:
        kind: what it clears, for messages.
        name: of the resource; hooks need names of their own.
        clear: a function of `components.release.clear`, given all but the resource's inputs.
        creates: whether it runs before a create.
        updates: whether it runs before an update.
    """

    async def before(args: pulumi.ResourceHookArgs) -> None:
        await _clear(kind, clear(dict(args.new_inputs or {})))

    made = hooks.binding(f"clear-{kind}-{name}", before, updates=updates)
    if not creates:
        made.before_create = None
    return made


async def _clear(kind: str, clearing: Coroutine[Any, Any, list[str]]) -> None:
    try:
        # A loop of its own: the engine's goes on answering meanwhile.
        removed = await asyncio.to_thread(asyncio.run, asyncio.wait_for(clearing, LIMIT))
    except FaultError as error:
        raise pulumi.RunError(str(error)) from None
    except TimeoutError:
        raise pulumi.RunError(
            f"{kind} before its create: found no end after {LIMIT} s; wanted: an answer of the "
            "cluster; cure: see whether its API server answers, then run again"
        ) from None
    if removed:
        pulumi.log.info(f"cleared what stood in the way: {', '.join(removed)}")
