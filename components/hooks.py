"""What stands in the way of a resource is cleared just before it is made.

A run that is killed between making an object and recording it leaves an object that the state does
not know. Most objects are simply applied again; a Helm release whose name is taken is not. And the
engine deletes after all that it makes, so a device plugin that is no longer declared would serve a
node beside the one that follows it. `components.release.clear` removes them, only where they are
ours. They never run in a preview; `before_changes` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pulumi

from components.kubernetes.api import ClusterError
from components.release import clear

#: Seconds for the clearing of one leftover.
LIMIT = 120


async def _clear(kind: str, content: dict[str, Any]) -> None:
    try:
        # A loop of its own: the engine's goes on answering meanwhile.
        work = asyncio.wait_for(clear.ACTIONS[kind](content), LIMIT)
        result = await asyncio.to_thread(asyncio.run, work)
    except ClusterError as error:
        raise pulumi.RunError(str(error)) from None
    except TimeoutError:
        raise pulumi.RunError(
            f"{kind} before its create: found no end after {LIMIT} s; wanted: an answer of the "
            "cluster; cure: see whether its API server answers, then run again"
        ) from None
    if removed := result["removed"]:
        pulumi.log.info(f"cleared what stood in the way: {', '.join(removed)}")


def clearing(
    kind: str,
    context: str,
    name: str,
    more: Mapping[str, Any] | None = None,
    *,
    updates: bool = False,
) -> pulumi.ResourceHookBinding:
    """A hook before a create, or before an update.

    Args:
        kind: ``release`` or ``namespace``, or ``upgrade`` before an update.
        context: context of the kubeconfig.
        name: name of the resource; hooks need names of their own.
        more: what the action needs beside the resource's inputs.
        updates: whether it runs before an update instead.
    """

    async def before(args: pulumi.ResourceHookArgs) -> None:
        await _clear(
            kind, {"context": context, "inputs": dict(args.new_inputs or {}), **(more or {})}
        )

    binding = _binding(f"clear-{kind}-{name}", before, updates=updates)
    if updates:
        binding.before_create = None
    return binding


def ending_servers(
    context: str, namespace: str, selector: str, declared: list[str], release: str, name: str
) -> pulumi.ResourceHookBinding:
    """A hook before a create or update that keeps two device plugins off one node.

    It ends ours that are no longer declared, and before one of ours waits for the release's.

    Args:
        context: context of the kubeconfig.
        namespace: where their DaemonSets are.
        selector: label selector of their pods.
        declared: names of those that stay.
        release: name of the release's DaemonSet.
        name: of the component whose resources bear the hook; hooks need names of their own.
    """
    content = {
        "context": context,
        "namespace": namespace,
        "selector": selector,
        "declared": declared,
        "release": release,
    }

    async def before(args: pulumi.ResourceHookArgs) -> None:
        await _clear("servers", {**content, "inputs": dict(args.new_inputs or {})})

    return _binding(f"give-way-{name}", before, updates=True)


def before_changes(name: str, function: pulumi.ResourceHookFunction) -> pulumi.ResourceHookBinding:
    """A hook before a create or update, in previews too.

    Args:
        name: hooks need names of their own.
        function: what it calls.
    """
    return _binding(name, function, updates=True, previews=True)


def _binding(
    name: str,
    function: pulumi.ResourceHookFunction,
    *,
    updates: bool = False,
    previews: bool = False,
) -> pulumi.ResourceHookBinding:
    hook = pulumi.ResourceHook(name, function, pulumi.ResourceHookOptions(on_dry_run=previews))
    return pulumi.ResourceHookBinding(
        before_create=[hook], before_update=[hook] if updates else None
    )
