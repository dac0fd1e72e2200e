"""Hooks that remove leftovers of interrupted runs just before Pulumi creates a resource.

If a run is killed between the creation of an object and the write of the Pulumi state, the object
is missing in the state. Pulumi applies most of such objects again without a problem, but Helm
rejects a release whose name is in use. Pulumi also deletes resources only after it has created all
others, so a removed device plugin would run on a node together with its successor.
`gpu_cluster.release.clear` deletes such objects if they belong to this program. The hooks never run
in a preview.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pulumi

from gpu_cluster import hooks
from gpu_rules.faults import FaultError

# Maximum seconds for the removal of one resource's leftovers.
LIMIT = 120

Clear = Callable[[dict[str, Any]], Coroutine[Any, Any, list[str]]]
"""Function that gets a resource's inputs, removes leftovers, and describes what it removed."""


def clearing(
    kind: str, name: str, clear: Clear, *, creates: bool = True, updates: bool = False
) -> pulumi.ResourceHookBinding:
    """Return a hook that removes leftovers which would make a resource's creation fail.

    Args:
        kind: Kind of the leftovers, for messages.
        name: Name of the resource; it makes the hook's name unique.
        clear: Function of `gpu_cluster.release.clear` that gets the resource's inputs.
        creates: True if the hook runs before the resource is created.
        updates: True if the hook runs before the resource is updated.
    """

    async def before(args: pulumi.ResourceHookArgs) -> None:
        await _run_clearing(kind, clear(dict(args.new_inputs or {})))

    clear_hooks = hooks.binding(f"clear-{kind}-{name}", before, updates=updates)
    if not creates:
        clear_hooks.before_create = None
    return clear_hooks


async def _run_clearing(kind: str, clearing: Coroutine[Any, Any, list[str]]) -> None:
    try:
        # A separate event loop keeps the Pulumi SDK's event loop responsive.
        removed = await asyncio.to_thread(asyncio.run, asyncio.wait_for(clearing, LIMIT))
    except FaultError as error:
        raise pulumi.RunError(str(error)) from None
    except TimeoutError:
        raise pulumi.RunError(
            f"{kind}: found leftovers of an earlier run that were not removed within {LIMIT} s; "
            "wanted: a response of the API server; cure: check that the API server responds, "
            "then run again"
        ) from None
    if removed:
        pulumi.log.info(f"removed leftovers of an earlier run: {', '.join(removed)}")
