"""How nodes are drained for a change."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, StrictInt

from components.base.model import Model


class Consent(StrEnum):
    """Pods that lose something when they are evicted.

    `empty-dir`: what is in their emptyDir volumes. `unmanaged`: themselves, as no controller makes
    them again. kubectl drain has ``--delete-emptydir-data`` and ``--force`` for them.
    """

    EMPTY_DIR = "empty-dir"
    UNMANAGED = "unmanaged"


class RolloutSettings(Model):
    """What disrupts pods goes in waves: a canary, then at most `maxUnavailable` nodes at once.

    Of the control plane never two. `evict`: pods that may be evicted although they lose something;
    without it a node that has such pods stops the rollout before it begins.
    """

    max_unavailable: StrictInt = Field(
        default=1, ge=1, le=1000, description="a whole number from 1 to 1000, nodes", examples=[1]
    )
    drain_timeout_seconds: StrictInt = Field(
        default=300,
        ge=1,
        le=7200,
        description="a whole number from 1 to 7200, seconds until a node's pods are gone",
        examples=[300],
    )
    evict: tuple[Consent, ...] = Field(
        default=(), description="a list of empty-dir and unmanaged", examples=["[empty-dir]"]
    )
