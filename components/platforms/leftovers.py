"""What stands in the way of a resource is cleared just before it is made.

A run that is killed between making an object and recording it leaves an object that the state does
not know. Most objects are simply applied again; a Helm release whose name is taken and a Job whose
pod template can't change are not. And the engine deletes after all that it makes, so a device
plugin that is no longer declared would serve a node beside the one that follows it.
`components.platforms.clear` removes them, only where they are ours.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pulumi

from components.operation import command_line

#: Seconds for the clearing of one leftover.
LIMIT = 120


def _clear(kind: str, content: dict[str, Any]) -> None:
    result = subprocess.run(
        ["sh", *command_line("leftovers", kind).split()[1:]],
        input=json.dumps(content),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if result.returncode != 0:
        raise pulumi.RunError(result.stderr.strip())
    removed = json.loads(result.stdout)["removed"]
    if removed:
        pulumi.log.info(f"cleared what stood in the way: {', '.join(removed)}")


def clearing(kind: str, context: str, name: str) -> pulumi.ResourceHookBinding:
    """A hook that runs before a create, never in a preview.

    Args:
        kind: ``release`` or ``job``.
        context: context of the kubeconfig.
        name: name of the resource; hooks need names of their own.
    """

    async def before_create(args: pulumi.ResourceHookArgs) -> None:
        content = {"context": context, "inputs": dict(args.new_inputs or {})}
        await asyncio.to_thread(_clear, kind, content)

    hook = pulumi.ResourceHook(f"clear-{kind}-{name}", before_create)
    return pulumi.ResourceHookBinding(before_create=[hook])


def giving_way(
    context: str, namespace: str, declared: list[str], name: str
) -> pulumi.ResourceHookBinding:
    """A hook before a create or update, never run in a preview, that ends our device plugins that
    are no longer declared.

    Args:
        context: context of the kubeconfig.
        namespace: where their DaemonSets are.
        declared: names of those that stay.
        name: of the component whose resources bear the hook; hooks need names of their own.
    """
    content = {"context": context, "namespace": namespace, "declared": declared}

    async def before(_: pulumi.ResourceHookArgs) -> None:
        await asyncio.to_thread(_clear, "servers", content)

    hook = pulumi.ResourceHook(f"give-way-{name}", before)
    return pulumi.ResourceHookBinding(before_create=[hook], before_update=[hook])
