"""Resource hooks: functions that Pulumi calls before or after it changes a resource.

Each hook runs with the context variables (`contextvars`) of the code that declared the hook.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

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
        await _called(here, function, args)

    hook = pulumi.ResourceHook(name, run, pulumi.ResourceHookOptions(on_dry_run=previews))
    return pulumi.ResourceHookBinding(
        before_create=[hook], before_update=[hook] if updates else None
    )


def around(
    name: str,
    before: Callable[[], Awaitable[None]],
    after: Callable[[], Awaitable[None]],
    failed: Callable[[], Awaitable[None]],
) -> pulumi.ResourceHookBinding:
    """Return hooks that run before a create or update, after it, and after its failure.

    A failed operation is not tried again. None of the hooks runs in a preview.

    Args:
        name: Name of the hooks, unique in the program.
        before: Function that runs before the operation.
        after: Function that runs after a successful operation.
        failed: Function that runs after a failed operation.
    """
    here = contextvars.copy_context()

    async def failing(_: pulumi.ErrorHookArgs) -> bool:
        await _called(here, failed)
        return False

    first = pulumi.ResourceHook(f"before-{name}", lambda _: _called(here, before))
    last = pulumi.ResourceHook(f"after-{name}", lambda _: _called(here, after))
    return pulumi.ResourceHookBinding(
        before_create=[first],
        before_update=[first],
        after_create=[last],
        after_update=[last],
        on_error=[pulumi.ErrorHook(f"failed-{name}", failing)],
    )


async def _called(here: contextvars.Context, function: Callable[..., Any], *args: Any) -> None:
    """Call a hook's function with copies of context variables, and await its coroutine, if any."""
    result = here.copy().run(function, *args)
    if inspect.iscoroutine(result):
        await asyncio.create_task(result, context=here.copy())
