"""A pool as it should be: its nodes, and the labels and taints that they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

POOL_LABEL = "gpu-cluster/pool"
"""Label of a pool's nodes where objects of the platform select them."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """Which nodes of the cluster are a pool's.

    Attributes:
        context: context of the kubeconfig.
        pool: name of the pool.
        nodes: names of its nodes without those in maintenance; None: `selector` finds them.
        selector: labels that find its nodes.
        count: how many nodes the selector must find.
        maintenance: nodes in maintenance: they are left out, and may be missing.
        joining: nodes that may be missing, because this run lets them join.
    """

    context: str
    pool: str
    nodes: tuple[str, ...] | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    count: int = 0
    maintenance: tuple[str, ...] = ()
    joining: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OwnScheduling:
    """Labels and taints that one node has in addition to its pool's."""

    labels: Mapping[str, str]
    taints: tuple[Json, ...]


@dataclass(frozen=True, kw_only=True)
class PoolScheduling(Members):
    """The labels and taints of a pool's nodes: request of the program ``scheduling``.

    Attributes:
        manager: field manager of the labels: fixed, so that every run owns the same fields.
        labels: by key.
        taints: as the API server has them.
        startup_taint: new nodes take no pods until each of their GPUs ran a kernel.
        resources: extended resources that GPU pods request; needed with `startup_taint` only.
        namespace: namespace of the validation pods.
        hands_over: field managers by the label that they hold in place of `manager`.
        by_node: labels and taints of single nodes.
        stack: name of the stack.
        gpus: GPUs of each node.
        gpus_by_node: the same of nodes some of whose GPUs are left out.
    """

    manager: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()
    startup_taint: bool = False
    resources: tuple[str, ...] = ()
    namespace: str = ""
    hands_over: Mapping[str, str] = field(default_factory=dict)
    by_node: Mapping[str, OwnScheduling] = field(default_factory=dict)
    stack: str = ""
    gpus: int = 0
    gpus_by_node: Mapping[str, int] = field(default_factory=dict)

    def gpus_of(self, name: str) -> int:
        """Return the GPUs that a node should offer."""
        return self.gpus_by_node.get(name, self.gpus)

    def of_node(self, name: str) -> OwnScheduling:
        """Return what a node should have: the pool's labels and taints, the node's own first."""
        own = self.by_node.get(name, OwnScheduling(labels={}, taints=()))
        pairs = {(taint["key"], taint["effect"]) for taint in own.taints}
        shared = (t for t in self.taints if (t["key"], t["effect"]) not in pairs)
        return OwnScheduling(labels={**self.labels, **own.labels}, taints=(*shared, *own.taints))


@dataclass(frozen=True, kw_only=True)
class DesiredScheduling:
    """What decides where pods go.

    Attributes:
        pools: labels and taints of each pool's nodes.
        by_rule: names of the pools whose nodes Node Feature Discovery labels and taints.
        objects: priority classes, limits and rules, by the end of their resources' names.
    """

    pools: tuple[PoolScheduling, ...]
    by_rule: frozenset[str] = frozenset()
    objects: Mapping[str, Json] = field(default_factory=dict)
