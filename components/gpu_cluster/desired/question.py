"""Input of the inspection of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.desired.rollout import DesiredMigLayouts
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.platforms.base import NodeOverride, OperandOverride
from gpu_cluster.platforms.requests import PresenceRequest


@dataclass(frozen=True, kw_only=True)
class Question:
    """Desired state that the inspection compares with the cluster.

    Attributes:
        scheduling: Labels and taints of each pool's nodes.
        by_rule: Names of the pools whose nodes get their labels from Node Feature Discovery.
        validation: Pools with GPUs; all nodes of a pool advertise the same devices.
        presence: Objects of the platform that must exist.
        values: Values of the platform's chart.
        endpoints: Endpoints that nodes must reach, as `host:port`.
        service_address: Declared IP address of the platform's Service; empty if there is none.
        own: Namespaces that the stack creates.
        pods: Namespaces of the platform's pods.
        manager: Name of the field manager of the stack's objects.
        chart: The platform's chart; None if it has no chart.
        layouts: MIG layouts of the nodes.
        overrides: Labels and annotations by which others overrule the platform's settings on a
            node.
        operand_overrides: Variables and arguments by which an edited DaemonSet overrules them.
    """

    context: str
    scheduling: tuple[PoolScheduling, ...]
    by_rule: frozenset[str]
    validation: tuple[PoolValidation, ...]
    presence: PresenceRequest
    values: Mapping[str, Any]
    endpoints: list[str]
    service_address: str
    own: list[str]
    pods: frozenset[str]
    manager: str
    chart: WantedChart | None
    layouts: DesiredMigLayouts
    overrides: tuple[NodeOverride, ...] = ()
    operand_overrides: tuple[OperandOverride, ...] = ()
