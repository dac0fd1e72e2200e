"""Section `rollout` of the stack file: how nodes are drained for a change."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, StrictInt

from gpu_cluster.base.model import Model


class Consent(StrEnum):
    """Kinds of pods that lose data or are not recreated when they are evicted.

    `empty-dir`: pods that lose the data in their emptyDir volumes. `unmanaged`: pods without a
    controller that would create them again. The matching options of kubectl drain are
    `--delete-emptydir-data` and `--force`.
    """

    EMPTY_DIR = "empty-dir"
    UNMANAGED = "unmanaged"


class RolloutSettings(Model):
    """Limits of a rollout: one canary node first, then up to `maxUnavailable` nodes in parallel.

    At most one control-plane node is changed at a time. `evict` lists the kinds of pods that may be
    evicted although they lose data or are not recreated; if a node runs such a pod and the pod's
    kind is not listed, the rollout does not start.
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
