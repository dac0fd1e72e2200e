"""Resource hooks: functions that Pulumi calls just before it creates or updates a resource.

Each hook runs with the context variables (`contextvars`) of the code that declared the hook.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect

import pulumi


def before_changes(name: str, function: pulumi.ResourceHookFunction) -> pulumi.ResourceHookBinding:
    """Return a hook that runs before a create and before an update, in previews too.

    Args:
        name: Name of the hook, unique in the program.
        function: Function that the hook calls.
    """
    return binding(name, function, updates=True, previews=True)


def binding(
    name: str,
    function: pulumi.ResourceHookFunction,
    *,
    updates: bool = False,
    previews: bool = False,
) -> pulumi.ResourceHookBinding:
    """Return a hook that runs before a create.

    Args:
        name: Name of the hook, unique in the program.
        function: Function that the hook calls.
        updates: Whether the hook runs before an update, too.
        previews: Whether the hook runs in previews, too.
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
