"""Section `scheduling` of the stack file: settings per node, priority classes and limits."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.names import (
    DnsLabel,
    LabelValue,
    NodeName,
    OwnLabelKey,
)
from gpu_cluster.settings.nodes.cards import Cards
from gpu_cluster.settings.nodes.taint import Taint, Toleration
from gpu_rules.faults import refuse, show
from gpu_rules.kube.names import is_dns_subdomain


class NodeFeatures(StrEnum):
    """Software that labels and taints the nodes of pools with a `selector`.

    `program`: this program, whenever it runs. `rule`: a NodeFeatureRule, so that Node Feature
    Discovery (NFD) also labels nodes that join later. `rule` requires NFD in the cluster and a
    selector of NFD's labels (`feature.node.kubernetes.io/…`).
    """

    PROGRAM = "program"
    RULE = "rule"


class NodeSchedulingSettings(Model):
    """Additional labels and taints of one node; a label here overrides the pool's label."""

    labels: Annotated[dict[OwnLabelKey, LabelValue], Freeze] = Field(
        default=FrozenDict({}),
        description="a mapping of label keys to values",
        examples=["{example.com/rack: r3}"],
    )
    taints: tuple[Taint, ...] = Field(
        default=(),
        description="a list of taints, such as example.com/reserved:NoSchedule",
        examples=["[example.com/reserved:NoSchedule]"],
    )

    def labels_over(self, labels: Mapping[str, str]) -> FrozenDict[str, str]:
        """Return the labels of a node's pool, overridden by the node's own."""
        return FrozenDict({**labels, **self.labels})

    def taints_over(self, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
        """Return the taints of a node's pool, overridden by the node's own."""
        node_taints = [taint.node_taint for taint in self.taints]
        shared = (t for t in taints if not any(map(t.node_taint.is_same, node_taints)))
        return (*shared, *self.taints)


def _class_name(text: str) -> str:
    if not is_dns_subdomain(text) or text.startswith("system-"):
        raise refuse(
            show(text),
            "a DNS subdomain that does not begin with system-, which Kubernetes keeps for itself",
            "write a name such as gpu-training",
        )
    return text


class PriorityClass(Model):
    """A Kubernetes PriorityClass; 1,000,000,000 is the highest value that users may set."""

    name: Annotated[StrictStr, AfterValidator(_class_name)] = Field(
        description="a name such as gpu-training", examples=["gpu-training"]
    )
    value: StrictInt = Field(
        ge=-(2**31), le=10**9, description="a whole number up to 1000000000", examples=[1000]
    )
    preempts: StrictBool = Field(
        default=True,
        description="true or false: evict pods of lower priority",
        examples=["true"],
    )
    description: StrictStr = Field(
        default="", description="a text", examples=["Training that may be preempted."]
    )


class NamespaceLimit(Model):
    """A LimitRange: the maximum number of GPUs in one container of a namespace."""

    namespace: DnsLabel = Field(description="a namespace", examples=["team-a"])
    max_cards: Cards = Field(
        description="cards: from 0.01 to 1, or a whole number", examples=["0.5"]
    )


class SchedulingSettings(Model):
    """Settings of single nodes, priority classes, and limits of namespaces.

    The pods of the GPU software and of the validation tolerate the taints of their pools.
    `tolerations` adds tolerations for taints of other software, such as those of spot nodes.
    """

    node_features: NodeFeatures = Field(
        default=NodeFeatures.PROGRAM, description="program or rule", examples=["program"]
    )
    nodes: Annotated[dict[NodeName, NodeSchedulingSettings], Freeze] = Field(
        default=FrozenDict({}), description="a mapping of node names to labels and taints"
    )
    priority_classes: tuple[PriorityClass, ...] = Field(
        default=(), description="a list of priority classes", examples=["[]"]
    )
    tolerations: tuple[Toleration, ...] = Field(
        default=(),
        description="a list of tolerations of the GPU software's pods, for taints of others",
        examples=["[{key: cloud.google.com/gke-spot, operator: Exists}]"],
    )
    limits: tuple[NamespaceLimit, ...] = Field(
        default=(), description="a list of namespaces with maxCards", examples=["[]"]
    )

    @model_validator(mode="before")
    @classmethod
    def _each_once(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        for key, name in (("priorityClasses", "name"), ("limits", "namespace")):
            items = data.get(key)
            names = [
                item[name]
                for item in (items if isinstance(items, list | tuple) else ())
                if isinstance(item, Mapping) and isinstance(item.get(name), str)
            ]
            for space in names:
                if names.count(space) > 1:
                    raise refuse(
                        f"{key} with {show(space)} twice", "each name once", "remove the second one"
                    )
        return data
