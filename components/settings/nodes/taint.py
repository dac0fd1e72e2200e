"""Taints of a pool's nodes, written `key=value:Effect`, `key:Effect` or as a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictStr, model_validator

from components.base.model import Model
from components.base.names import LabelValue, own_key
from policies.faults import refuse, show


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


def _taint_key(text: str) -> str:
    if own_key(text).startswith("node.kubernetes.io/"):
        raise refuse(
            show(text),
            "a key outside node.kubernetes.io/, whose taints the node controller sets and clears",
            "use a prefix of your own, such as example.com/",
        )
    return text


class Taint(Model):
    """`key`, `value` (empty by default) and `effect` of one taint."""

    key: Annotated[StrictStr, AfterValidator(_taint_key)] = Field(
        description="a taint key such as nvidia.com/gpu", examples=["nvidia.com/gpu"]
    )
    value: LabelValue = Field(
        default="", description="a taint value, or nothing", examples=["present"]
    )
    effect: Effect = Field(
        description="NoSchedule, PreferNoSchedule or NoExecute", examples=["NoSchedule"]
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        if isinstance(data, str):
            pair, colon, effect = data.rpartition(":")
            if not colon:
                raise refuse(
                    show(data),
                    "a taint: key=value:Effect or key:Effect",
                    f"write {show(data + ':NoSchedule')}",
                )
            key, _, value = pair.partition("=")
            return {"key": key, "value": value, "effect": effect}
        if not isinstance(data, Mapping | Taint):
            raise refuse(
                show(data),
                "a taint: key=value:Effect or key:Effect",
                "write a taint such as nvidia.com/gpu=present:NoSchedule",
            )
        return data

    @property
    def plain(self) -> dict[str, str]:
        """The taint as the API server writes it: no key with an empty value."""
        value = {"value": self.value} if self.value else {}
        return {"key": self.key, **value, "effect": str(self.effect)}

    def __str__(self) -> str:
        pair = f"{self.key}={self.value}" if self.value else self.key
        return f"{pair}:{self.effect}"


# The value `present` is what node-feature-discovery's worker tolerates in the device plugin's
# chart 0.20.0 (values.yaml, nfd.worker.tolerations: Equal, present); the others tolerate Exists.
GPU_TAINT_VALUE = "present"
STARTUP_PREFIX = "startup-taint.cluster-autoscaler.kubernetes.io/"
"""Of taints that cluster-autoscaler doesn't expect on the nodes that it adds, and with which a node
counts as still starting (kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go,
StartupTaintPrefix)."""
STARTUP_TAINT = Taint.model_construct(
    key=f"{STARTUP_PREFIX}gpu-validation", value="", effect=Effect.NO_SCHEDULE
)
"""On new nodes until each of their GPUs ran a kernel; a stack file can't have a key like it."""
GPU_TAINT = Taint(key="nvidia.com/gpu", value=GPU_TAINT_VALUE, effect=Effect.NO_SCHEDULE)
