"""What an inspection found to differ from what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.rollout.layout_plan import LayoutPlan
from components.rollout.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Drift:
    """Findings, as inputs of the resources that repair them; without any nothing differs.

    Attributes:
        unreached: by host, why the inspection did not reach it.
        prepare: by host, what changed since it was prepared.
        reboot: by host, why it must be rebooted, or its node given back; with the host's time.
        runtime: by host, what changed of its container runtime.
        scheduling: by pool, what its nodes lack.
        validation: by pool, why its last validation no longer holds.
        rollout: what must go in waves.
        layouts: nodes that have another MIG layout, in waves too.
        platform: what is missing of the platform; None: nothing.
        release: which record of the platform's release says that its upgrade did not end; None: it
            did.
        groups: API groups that the cluster was seen to serve.
        cluster: by host, what changed since it became a node of the stack's own cluster.
        context: whether this machine has the cluster's context.
    """

    unreached: Mapping[str, str] = field(default_factory=dict)
    prepare: Mapping[str, str] = field(default_factory=dict)
    reboot: Mapping[str, str] = field(default_factory=dict)
    runtime: Mapping[str, str] = field(default_factory=dict)
    scheduling: Mapping[str, str] = field(default_factory=dict)
    validation: Mapping[str, str] = field(default_factory=dict)
    rollout: Plan = field(default_factory=Plan)
    layouts: LayoutPlan = field(default_factory=LayoutPlan)
    platform: str | None = None
    release: str | None = None
    groups: frozenset[str] = frozenset()
    cluster: Mapping[str, str] = field(default_factory=dict)
    context: bool = True
