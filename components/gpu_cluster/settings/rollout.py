"""Section `rollout` of the stack file: how nodes are drained for a change."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictInt, StrictStr

from gpu_cluster.base.model import Freeze, FrozenDict, Model


class Consent(StrEnum):
    """Kinds of pods that lose data or are not recreated when they are evicted.

    `empty-dir`: pods that lose the data in their emptyDir volumes. `unmanaged`: pods without a
    controller that would create them again. The matching options of kubectl drain are
    `--delete-emptydir-data` and `--force`.
    """

    EMPTY_DIR = "empty-dir"
    UNMANAGED = "unmanaged"


class Judged(StrEnum):
    """Software whose upgrades are refused if its makers support them in several steps only."""

    GPU_OPERATOR = "gpu-operator"
    DEVICE_PLUGIN = "nvidia-device-plugin"
    DRA_DRIVER = "dra-driver-nvidia-gpu"
    CONTAINERD = "containerd"
    TOOLKIT = "container-toolkit"
    DRIVER = "driver"


class RolloutSettings(Model):
    """Limits of a rollout: one canary node first, then up to `maxUnavailable` nodes in parallel.

    At most one control-plane node is changed at a time. `evict` lists the kinds of pods that may be
    evicted although they lose data or are not recreated; if a node runs such a pod and the pod's
    kind is not listed, the rollout does not start. `unsupportedFrom` accepts an upgrade that the
    software's makers don't support in one step, from the version that it names and no other.
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
    unsupported_from: Annotated[dict[Judged, StrictStr], Freeze] = Field(
        default=FrozenDict(),
        description="a mapping of software to the version from which an upgrade that its makers "
        "don't support is accepted",
        examples=["{gpu-operator: v25.3.4}"],
    )
