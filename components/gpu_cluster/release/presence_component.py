"""Pulumi command that checks that every object of the platform exists.

The preview shows objects of a release that somebody deleted by hand, and the next run restores
them. The command owns no objects.
"""

from __future__ import annotations

from dataclasses import replace

import pulumi
from pulumi_command import local

from gpu_cluster.findings import Findings
from gpu_cluster.operation import run_program
from gpu_cluster.platforms.requests import PresenceRequest
from gpu_cluster.requests import write


def presence(
    name: str,
    declared: PresenceRequest,
    findings: Findings,
    revision: pulumi.Output[int],
    opts: pulumi.ResourceOptions,
) -> local.Command:
    """Return the Command that checks the platform's objects after the resources in `opts`.

    Its output contains the digest of Helm's record, so the Pulumi state can verify what is
    restored.

    Args:
        name: Name of the Pulumi resource.
        declared: Objects that must exist in the cluster.
        findings: Objects that an inspection found missing or edited, or an unfinished upgrade.
        revision: Helm's revision number of the release in the Pulumi state.
        opts: Resource options of the command.
    """
    return run_program(
        name,
        "presence",
        "check",
        revision.apply(lambda number: write(replace(declared, revision=number))),
        opts,
        findings=findings,
        update="restore",
        has_previous_output=True,
    )
