"""Pulumi command that checks that every object of the platform exists.

The preview shows objects of a release that somebody deleted by hand, and the next run restores
them. The command owns no objects.
"""

from __future__ import annotations

from dataclasses import replace

import pulumi
import pulumi_command as command

from components.findings import Findings
from components.operation import command_line, repair
from components.platforms.requests import PresenceRequest
from components.requests import write


def presence(
    name: str,
    declared: PresenceRequest,
    findings: Findings,
    revision: pulumi.Output[int],
    opts: pulumi.ResourceOptions,
) -> command.local.Command:
    """Return the Command that checks the platform's objects after the resources in `opts`.

    Its output contains the digest of Helm's record, so the Pulumi state can verify what is
    restored.

    Args:
        name: Name of the Pulumi resource.
        declared: Objects that must exist in the cluster.
        findings: Objects that an inspection found missing, or an unfinished upgrade.
        revision: Helm's revision number of the release in the Pulumi state.
        opts: Resource options of the command.
    """
    environment, ignored = repair(findings)
    return command.local.Command(
        name,
        create=command_line("presence", "check"),
        update=command_line("presence", "restore"),
        environment=environment,
        stdin=revision.apply(lambda number: write(replace(declared, revision=number))),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(ignore_changes=ignored)),
    )
