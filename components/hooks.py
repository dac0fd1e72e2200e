"""Hooks: functions of ours that the engine calls just before it makes or changes a resource.

Each runs with the context variables of the place that declared it, as callbacks of asyncio do.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect

import pulumi


def before_changes(name: str, function: pulumi.ResourceHookFunction) -> pulumi.ResourceHookBinding:
    """A hook before a create or update, in previews too.

    Args:
        name: hooks need names of their own.
        function: what it calls.
    """
    return binding(name, function, updates=True, previews=True)


def binding(
    name: str,
    function: pulumi.ResourceHookFunction,
    *,
    updates: bool = False,
    previews: bool = False,
) -> pulumi.ResourceHookBinding:
    """Return a hook before a create.

    Args:
        name: hooks need names of their own.
        function: what it calls.
        updates: whether it runs before an update, too.
        previews: whether it runs in previews, too.
    """
    here = contextvars.copy_context()

    async def run(args: pulumi.ResourceHookArgs) -> None:
        result = here.copy().run(function, args)
        if inspect.iscoroutine(result):
            await asyncio.create_task(result, context=here.copy())

    hook = pulumi.ResourceHook(name, run, pulumi.ResourceHookOptions(on_dry_run=previews))
    return pulumi.ResourceHookBinding(
        before_create=[hook], before_update=[hook] if updates else None
    )
