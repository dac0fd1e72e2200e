"""Hooks: functions of ours that the engine calls just before it makes or changes a resource."""

from __future__ import annotations

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
    hook = pulumi.ResourceHook(name, function, pulumi.ResourceHookOptions(on_dry_run=previews))
    return pulumi.ResourceHookBinding(
        before_create=[hook], before_update=[hook] if updates else None
    )
