"""Taints of nodes, written as `key=value:Effect`, `key:Effect` or a mapping."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_cluster.base.names import LabelValue, own_key
from gpu_rules.faults import refuse, show
from gpu_rules.kube.gpu_resources import GPU
from gpu_rules.kube.taints import NodeTaint, TaintEffect

_TAINT = "a taint: key=value:Effect or key:Effect"
_WITHOUT_EFFECT = r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?(=[\w.-]{0,63})?"


def _taint_key(text: str) -> str:
    if own_key(text).startswith("node.kubernetes.io/"):
        raise refuse(
            show(text),
            "a key outside node.kubernetes.io/, whose taints the node controller sets and clears",
            "write a key such as example.com/reserved",
        )
    return text


class Taint(Model):
    """A node taint with `key`, `value` (empty by default) and `effect`."""

    key: Annotated[StrictStr, AfterValidator(_taint_key)] = Field(
        description="a taint key such as nvidia.com/gpu", examples=["nvidia.com/gpu"]
    )
    value: LabelValue = Field(
        default="", description="a taint value, or nothing", examples=["present"]
    )
    effect: TaintEffect = Field(
        description="NoSchedule, PreferNoSchedule or NoExecute", examples=["NoSchedule"]
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        if isinstance(data, str):
            if ":" in data:
                return asdict(NodeTaint.parse(data))
            if re.fullmatch(_WITHOUT_EFFECT, data):
                raise refuse(show(data), _TAINT, f"write {show(data + ':NoSchedule')}")
        elif isinstance(data, Mapping | Taint):
            return data
        example = "write a taint such as nvidia.com/gpu=present:NoSchedule"
        raise refuse(show(data), _TAINT, example)

    @property
    def node_taint(self) -> NodeTaint:
        """Return the taint as a node has it."""
        return NodeTaint(self.key, self.value, str(self.effect))

    @property
    def plain(self) -> dict[str, str]:
        """Return the taint in the API server's form, which omits an empty value."""
        value = {"value": self.value} if self.value else {}
        return {"key": self.key, **value, "effect": str(self.effect)}

    def __str__(self) -> str:
        """Return the taint as `key=value:Effect`, or `key:Effect` without a value."""
        return str(self.node_taint)


class TolerationOperator(StrEnum):
    """Comparison of a toleration with a taint: any value, or an equal value."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class Toleration(Model):
    """A toleration of pods; without a key it tolerates every taint with the effect.

    Source: Kubernetes, core/v1, Toleration. `tolerationSeconds` is not accepted, because pods that
    advertise GPUs must stay on their nodes.
    """

    key: StrictStr = Field(
        default="",
        max_length=317,
        description="a taint key, or nothing for any key",
        examples=["cloud.google.com/gke-spot"],
    )
    operator: TolerationOperator = Field(
        default=TolerationOperator.EQUAL, description="Exists or Equal", examples=["Exists"]
    )
    value: LabelValue = Field(
        default="", description="a taint value, or nothing", examples=['"true"']
    )
    effect: TaintEffect | None = Field(
        default=None,
        description="NoSchedule, PreferNoSchedule or NoExecute; nothing: any effect",
        examples=["NoSchedule"],
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        exists = self.operator is TolerationOperator.EXISTS
        if not self.key and not exists:
            raise refuse(
                "a toleration without key, with operator Equal",
                "operator Exists, which Kubernetes requires without a key",
                'write "operator: Exists", or a key',
            )
        if exists and self.value:
            raise refuse(
                f"operator Exists with value {show(self.value)}",
                "no value: Exists tolerates every value",
                "remove value",
            )
        return self

    @property
    def plain(self) -> dict[str, str]:
        """Return the toleration in the API server's form, which omits empty fields."""
        fields = {"key": self.key, "operator": str(self.operator), "value": self.value}
        fields |= {"effect": str(self.effect)} if self.effect else {}
        return {name: value for name, value in fields.items() if value}


# Node Feature Discovery's worker in the device plugin's chart 0.20.0 tolerates only the value
# `present` (values.yaml, nfd.worker.tolerations, operator Equal). Other pods of the chart tolerate
# any value (operator Exists).
GPU_TAINT_VALUE = "present"
STARTUP_PREFIX = "startup-taint.cluster-autoscaler.kubernetes.io/"
"""Prefix of startup taints, with which cluster-autoscaler counts a new node as still starting.

Source: kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go, StartupTaintPrefix.
"""
STARTUP_TAINT = Taint.model_construct(
    key=f"{STARTUP_PREFIX}gpu-validation", value="", effect=TaintEffect.NO_SCHEDULE
)
"""Taint of new nodes until each of their GPUs has run a CUDA kernel.

A stack file can't declare a taint with this key.
"""
GPU_TAINT = Taint(key=GPU, value=GPU_TAINT_VALUE, effect=TaintEffect.NO_SCHEDULE)
