"""Desired state of a pool: its nodes, and the labels and taints of these nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

POOL_LABEL = "gpu-cluster/pool"
"""Label with the pool's name on its nodes, which the platform's objects use as a node selector."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """The nodes of a cluster that belong to a pool.

    Attributes:
        nodes: Names of the pool's nodes, without nodes in maintenance. None if `selector` selects
            the nodes.
        selector: Labels that select the pool's nodes.
        count: Number of nodes that `selector` must match.
        maintenance: Names of nodes in maintenance, which are skipped and may be missing.
        joining: Names of nodes that may be missing because they join the cluster in this run.
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
    """All labels and taints of one node."""

    labels: Mapping[str, str]
    taints: tuple[Json, ...]


@dataclass(frozen=True, kw_only=True)
class PoolScheduling(Members):
    """Labels and taints of a pool's nodes.

    Attributes:
        together: True if one Command sets the labels and taints of all pools. The state of an
            earlier version has a Command per pool, whose request is this class without the field.
        manager: Field manager of the labels; the same in every run, so that later runs own the
            fields.
        labels: Labels by key.
        taints: Taints in the API server's form.
        startup_taint: True if new nodes are tainted until each of their GPUs has run a CUDA kernel.
        resources: Extended resources that GPU pods request; needed only with `startup_taint`.
        namespace: Namespace of the validation pods.
        hands_over: Keys of labels whose field ownership is transferred, mapped to the new field
            manager.
        by_node: Labels and taints of nodes that override those of the pool, by node.
        gpus: Number of GPUs of each node.
        gpus_by_node: Number of healthy GPUs, by name of each node with unhealthy GPUs.
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
    together: bool = False

    def gpus_of(self, name: str) -> int:
        """Return the number of GPUs that a node should advertise."""
        return self.gpus_by_node.get(name, self.gpus)

    def of_node(self, name: str) -> OwnScheduling:
        """Return the labels and taints of a node."""
        return self.by_node.get(name) or OwnScheduling(labels=self.labels, taints=self.taints)


@dataclass(frozen=True, kw_only=True)
class PoolsScheduling:
    """Labels and taints of the nodes of several pools: request of the program `node-scheduling`."""

    context: str
    pools: tuple[PoolScheduling, ...]


@dataclass(frozen=True, kw_only=True)
class DesiredScheduling:
    """Node labels, node taints, and scheduling objects of the stack.

    Attributes:
        pools: Labels and taints of each pool's nodes.
        by_rule: Names of the pools whose nodes Node Feature Discovery labels and taints.
        objects: Manifests of PriorityClasses, LimitRanges and NodeFeatureRules, by the suffix of
            their Pulumi resource's name.
    """

    pools: tuple[PoolScheduling, ...]
    by_rule: frozenset[str] = frozenset()
    objects: Mapping[str, Json] = field(default_factory=dict)
