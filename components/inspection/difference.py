"""What an inspection found to differ: the parts of all features.

*Change*: what is desired isn't what was last applied. *Drift*: what is observed isn't what was last
applied. *Due*: nothing differs, but a proof is missing or no longer holds. Each host and node, and
the platform's release, keep what they were last applied with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from components.findings import Finding, Findings, Kind
from components.hosts.difference import HostDifference
from components.nodes.difference import PoolGpus, SchedulingDifference
from components.release.difference import PlatformDifference
from components.rollout.mig_layouts_plan import MigLayoutsPlan
from components.rollout.plan import Plan
from components.validation.difference import ValidationDifference


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What differs; without any finding nothing does, as far as it was seen.

    Attributes:
        hosts: of hosts.
        scheduling: of nodes, their labels and taints; how many GPUs pools have, before and after.
        validation: which nodes must be validated.
        rollout: what must go in waves.
        layouts: nodes that get another MIG layout, in waves too.
        platform: of the platform and its release.
        groups: API groups that the cluster was seen to serve.
        unknown: why nothing is known of the cluster yet; empty: it was looked at, or left out.
        context: whether this machine has the cluster's context.
    """

    hosts: HostDifference = field(default_factory=HostDifference)
    scheduling: SchedulingDifference = field(default_factory=SchedulingDifference)
    validation: ValidationDifference = field(default_factory=ValidationDifference)
    rollout: Plan = field(default_factory=Plan)
    layouts: MigLayoutsPlan = field(default_factory=MigLayoutsPlan)
    platform: PlatformDifference = field(default_factory=PlatformDifference)
    groups: frozenset[str] = frozenset()
    unknown: str = ""
    context: bool = True

    @property
    def findings(self) -> Findings:
        """All findings, hosts first."""
        return (
            *self.hosts.findings,
            *self.rollout.findings,
            *self.scheduling.findings,
            *self.platform.findings,
            *self.layouts.findings,
            *self.validation.findings,
        )

    def of(self, kind: Kind) -> tuple[Finding, ...]:
        """Return the findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind is kind)

    @property
    def gpus(self) -> tuple[PoolGpus, ...]:
        """The GPUs of each pool before and after."""
        return self.scheduling.gpus
