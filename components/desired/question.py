"""What the inspection is asked about a cluster."""

from __future__ import annotations

from dataclasses import dataclass

from components.charts.availability import WantedChart
from components.desired.pool import PoolScheduling
from components.desired.rollout import DesiredMigLayouts
from components.desired.validation import PoolValidation
from components.platforms.requests import PresenceRequest


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about a cluster.

    Attributes:
        context: context of the kubeconfig.
        scheduling: labels and taints of each pool's nodes.
        by_rule: pools whose nodes Node Feature Discovery labels.
        validation: pools with GPUs, as they are counted.
        presence: what must be there of the platform.
        endpoints: ``host:port`` that nodes need.
        own: namespaces that the stack makes.
        chart: the platform's chart.
        layouts: the MIG layouts.
    """

    context: str
    scheduling: tuple[PoolScheduling, ...]
    by_rule: frozenset[str]
    validation: tuple[PoolValidation, ...]
    presence: PresenceRequest
    endpoints: list[str]
    own: list[str]
    chart: WantedChart
    layouts: DesiredMigLayouts
