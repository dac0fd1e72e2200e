"""Differences between settings, last applied settings and observed state, for all features.

*Change*: the desired value is not the last applied value. *Drift*: the observed value is not the
last applied value. *Due*: no setting differs, but work is left, such as a validation that is
missing or no longer valid. Each host, each node and the GPU platform's Helm release record the
settings that were last applied to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_cluster.change.document import Cause, Loss
from gpu_cluster.findings import Finding, Findings, Kind
from gpu_cluster.hosts.difference import HostDifference
from gpu_cluster.nodes.difference import PoolGpus, SchedulingDifference
from gpu_cluster.nodes.pods import PodOnNode
from gpu_cluster.release.difference import PlatformDifference
from gpu_cluster.rollout.mig_layouts_plan import MigLayoutsPlan
from gpu_cluster.rollout.plan import EngineChange, Plan
from gpu_cluster.validation.difference import ValidationDifference


@dataclass(frozen=True, kw_only=True)
class PodLoss:
    """A pod that the run would evict or deprive of its GPUs, outside of rollouts.

    Attributes:
        node: Node that the pod runs on.
        loss: Effect on the pod: eviction, or GPUs that are no longer advertised or declared.
        cause: Reason for the effect.
    """

    node: str
    pod: PodOnNode
    loss: Loss
    cause: Cause


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Differences between the desired, the last applied and the observed state.

    If all fields are empty, the inspection found no difference.

    Attributes:
        removed: Hosts that an earlier run prepared and the stack file no longer declares, each with
            the name of its node. The run undoes their preparation.
        engines: Hosts whose container engine is replaced, all at the same time.
        scheduling: Differences of nodes' labels and taints, and the number of GPUs before and
            after.
        validation: Nodes that must be validated.
        rollout: Nodes whose hosts must be changed in waves.
        layouts: Nodes whose MIG layout must be changed in waves.
        platform: Differences of the GPU platform and its Helm release.
        losses: Pods that are evicted or lose their GPUs, outside of rollouts.
        groups: API groups that the API server offers.
        unknown: Why the cluster was not inspected. Empty: it was inspected, or the inspection was
            skipped.
        context: Whether this machine's kubeconfig has the cluster's context.
    """

    hosts: HostDifference = field(default_factory=HostDifference)
    removed: Mapping[str, str] = field(default_factory=dict)
    engines: tuple[EngineChange, ...] = ()
    scheduling: SchedulingDifference = field(default_factory=SchedulingDifference)
    validation: ValidationDifference = field(default_factory=ValidationDifference)
    rollout: Plan = field(default_factory=Plan)
    layouts: MigLayoutsPlan = field(default_factory=MigLayoutsPlan)
    platform: PlatformDifference = field(default_factory=PlatformDifference)
    losses: tuple[PodLoss, ...] = ()
    groups: frozenset[str] = frozenset()
    unknown: str = ""
    context: bool = True

    @property
    def findings(self) -> Findings:
        """Return all findings, findings about hosts first."""
        return (
            *self.hosts.findings,
            *self.rollout.findings,
            *self.scheduling.findings,
            *self.platform.findings,
            *self.layouts.findings,
            *self.validation.findings,
        )

    def of(self, kind: Kind) -> tuple[Finding, ...]:
        """Return the findings of one kind: change, drift or due."""
        return tuple(finding for finding in self.findings if finding.kind is kind)

    @property
    def gpus(self) -> tuple[PoolGpus, ...]:
        """Return the number of GPUs in each pool, before and after the run."""
        return self.scheduling.gpus
