"""Hosts in maintenance: nothing connects to them, and what the state holds of them stays.

A resource that is no longer declared is deleted, and deleting ours undoes what is on the host. So
the resources of such a host go on being declared, with all of their inputs ignored. Of a host that
was never prepared the state holds nothing, so nothing is declared: to make it is to connect.
"""

from __future__ import annotations

from typing import Any

import pulumi

from components.desired.host import DesiredHost

COMMAND = "command:remote:Command"
INPUTS = [
    "connection", "create", "update", "delete", "stdin", "triggers", "logging",
    "addPreviousOutputInEnv",
]  # fmt: skip
"""All that we give a command; the engine ignores changes of these."""
READ = "pulumi:pulumi:readStackResourceOutputs"
"""What the engine answers about a stack's resources (pulumi v3.250,
pkg/resource/deploy/builtins.go)."""


def declared(hosts: tuple[DesiredHost, ...], name: str) -> tuple[DesiredHost, ...]:
    """The hosts of which a command is declared.

    Args:
        hosts: those that the command is for.
        name: the commands' name, to which the host's is added.
    """
    if not any(host.in_maintenance for host in hosts):
        return hosts
    known = _recorded()
    return tuple(
        host
        for host in hosts
        if not host.in_maintenance or f"{COMMAND}::{name}-{host.name}" in known
    )


def options(host: DesiredHost, ignored: list[str]) -> dict[str, Any]:
    """How the engine treats a host's command.

    Args:
        host: the host.
        ignored: inputs of which changes are ignored on a working host, too.
    """
    if not host.in_maintenance:
        return {"ignore_changes": ignored}
    # Also with the whole stack, or with the host's own lines, nothing on the host is undone.
    return {"ignore_changes": INPUTS, "retain_on_delete": True}


def _recorded() -> set[str]:
    """Types and names of the resources that the stack's state holds."""
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    outputs = pulumi.runtime.invoke(READ, {"stackName": stack}).value or {}
    return {str(urn).rsplit("$", 1)[-1] for urn in outputs.get("outputs") or {}}
