"""Whether and how hosts are rebooted."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, StrictInt

from config.model import Model


class RebootWhen(StrEnum):
    """`never`: a pending reboot is told. `required`: hosts that need one are rebooted."""

    NEVER = "never"
    REQUIRED = "required"


class Reboot(Model):
    """Reboots go in waves: at most `maxUnavailable` hosts down, of the control plane never two.

    A host that is a cluster node is drained before and uncordoned after, if it was not cordoned
    already.
    """

    when: RebootWhen = Field(
        default=RebootWhen.NEVER, description="never or required", examples=["never"]
    )
    max_unavailable: StrictInt = Field(
        default=1, ge=1, le=1000, description="a whole number from 1 to 1000, hosts", examples=[1]
    )
    timeout_seconds: StrictInt = Field(
        default=900,
        ge=5,
        le=7200,
        description="a whole number from 5 to 7200, seconds until a host answers again",
        examples=[900],
    )
    drain_timeout_seconds: StrictInt = Field(
        default=300,
        ge=1,
        le=7200,
        description="a whole number from 1 to 7200, seconds until a node's pods are gone",
        examples=[300],
    )
