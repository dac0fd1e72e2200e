"""The check that every object of the platform is there.

Owns nothing. What is missing of a release that somebody changed by hand shows in the preview, and
is made again by the next run.
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
    """The check, after what ``opts`` names.

    Its output holds the digest of what Helm recorded: the state vouches for what is restored.

    Args:
        name: of the resource.
        declared: what must be in the cluster.
        findings: what an inspection found to be missing or not ended.
        revision: Helm's number of the release, as the state has it.
        opts: of the resource.
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
