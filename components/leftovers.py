"""What a killed run left behind is cleared just before its resource is created again.

A run that is killed between making an object and recording it leaves an object that the state does
not know. Most objects are simply applied again; a Helm release whose name is taken and a Job whose
pod template can't change are not. `operations.leftovers` removes them, only where they are ours.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

import pulumi

from .operation import command_line

#: Seconds for the clearing of one leftover.
LIMIT = 120


def _clear(kind: str, context: str, inputs: dict[str, Any]) -> None:
    result = subprocess.run(
        ["sh", *command_line("leftovers", kind).split()[1:]],
        input=json.dumps({"context": context, "inputs": inputs}),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if result.returncode != 0:
        raise pulumi.RunError(result.stderr.strip())
    removed = json.loads(result.stdout)["removed"]
    if removed:
        pulumi.log.info(f"cleared what an interrupted run left: {', '.join(removed)}")


def clearing(kind: str, context: str, name: str) -> pulumi.ResourceHookBinding:
    """A hook that runs before a create, never in a preview.

    Args:
        kind: ``release`` or ``job``.
        context: context of the kubeconfig.
        name: name of the resource; hooks need names of their own.
    """

    async def before_create(args: pulumi.ResourceHookArgs) -> None:
        await asyncio.to_thread(_clear, kind, context, dict(args.new_inputs or {}))

    hook = pulumi.ResourceHook(f"clear-{kind}-{name}", before_create)
    return pulumi.ResourceHookBinding(before_create=[hook])
