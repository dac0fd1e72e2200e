"""Section `reboot` of the stack file: when hosts reboot; `rollout` sets how many in parallel."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, StrictInt

from gpu_cluster.base.model import Model


class RebootWhen(StrEnum):
    """When hosts reboot: `never` (a pending reboot is only reported) or `required` (if needed)."""

    NEVER = "never"
    REQUIRED = "required"


class RebootSettings(Model):
    """Settings of reboots, which run in waves of at most `rollout.maxUnavailable` hosts.

    At most one control-plane host reboots at a time. A host that is a node of the cluster is
    drained before its reboot and uncordoned afterwards, unless it was cordoned before.
    """

    when: RebootWhen = Field(
        default=RebootWhen.NEVER, description="never or required", examples=["never"]
    )
    timeout_seconds: StrictInt = Field(
        default=900,
        ge=5,
        le=7200,
        description="a whole number from 5 to 7200: seconds until a host is reachable again",
        examples=[900],
    )
