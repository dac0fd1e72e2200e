"""Whether and how hosts are rebooted; how many at once is `rollout`'s."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, StrictInt

from components.base.model import Model


class RebootWhen(StrEnum):
    """`never`: a pending reboot is told. `required`: hosts that need one are rebooted."""

    NEVER = "never"
    REQUIRED = "required"


class RebootSettings(Model):
    """Reboots go in waves: at most `rollout.maxUnavailable` hosts down, of the control plane one.

    A host that is a cluster node is drained before and uncordoned after, if it was not cordoned
    already.
    """

    when: RebootWhen = Field(
        default=RebootWhen.NEVER, description="never or required", examples=["never"]
    )
    timeout_seconds: StrictInt = Field(
        default=900,
        ge=5,
        le=7200,
        description="a whole number from 5 to 7200, seconds until a host answers again",
        examples=[900],
    )
