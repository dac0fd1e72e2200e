"""Read-only inspection: which of a pool's nodes must be validated, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.findings import Finding, Findings, Kind
from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.nodes import gpu_holders, record
from gpu_cluster.nodes.inspect import node_name
from gpu_cluster.settings.validation import Busy
from gpu_cluster.validation.difference import compare, due
from gpu_cluster.validation.health import NodeHealth, health


@dataclass(frozen=True)
class PoolSeen:
    """A pool whose validation is inspected.

    Attributes:
        members: Its nodes.
        daemon_sets: DaemonSets from `record.list_daemon_sets`.
        holders: Pods or claims that hold GPUs, for each node with GPUs that no run has validated.
        in_use: Pods or claims that hold GPUs, for each node whose validation fails because of them.
    """

    pool: PoolValidation
    members: Sequence[Json]
    daemon_sets: list[Json]
    holders: Mapping[str, list[gpu_holders.GpuHolder]]
    in_use: Mapping[str, list[gpu_holders.GpuHolder]] = field(default_factory=dict)

    @property
    def findings(self) -> Findings:
        """Return findings for the nodes that must be validated; empty if there are none."""
        due_nodes: list[Finding] = []
        for node in self.members:
            node_findings = compare(node, self.pool, self.daemon_sets)
            if not node_findings and self._may_be_free(node):
                node_findings = (due(node_name(node), "GPUs that other pods used may be free"),)
            due_nodes += node_findings
        return tuple(due_nodes)

    @property
    def health(self) -> Iterator[NodeHealth]:
        """Yield the GPUs of each node."""
        for node in self.members:
            findings = compare(node, self.pool, self.daemon_sets)
            is_edited = any(finding.kind is Kind.CHANGE for finding in findings)
            yield health(node, self.pool, is_edited=is_edited)

    @property
    def deferred(self) -> dict[str, str]:
        """Return, by node, text about the pods that use GPUs which no run has validated.

        Nodes that this run validates are left out.
        """
        reasons = {}
        for node in self.members:
            validation = record.decode(node)
            holders = [holder for holder in self.holders.get(node_name(node), ()) if holder.amounts]
            if validation is None or not holders or self._may_be_free(node):
                continue
            if not compare(node, self.pool, self.daemon_sets):
                count = f"{validation.missing} GPU{'s' * (validation.missing > 1)}"
                holding = gpu_holders.named(holders)
                reasons[node_name(node)] = f"{count} not validated: held by {holding}"
        return reasons

    @property
    def refused(self) -> dict[str, str]:
        """Return, by node, the pods because of which the node's validation would fail."""
        holders_by_node = {
            node: [holder for holder in holders if holder.amounts]
            for node, holders in self.in_use.items()
        }
        return {
            node: gpu_holders.named(holders) for node, holders in holders_by_node.items() if holders
        }

    def _may_be_free(self, node: Json) -> bool:
        """Return whether GPUs that other pods used may be free now.

        That is false as long as the same pods use the GPUs, because another validation could not
        reach these GPUs.
        """
        validation, holders = record.decode(node), self.holders.get(node_name(node))
        if validation is None or holders is None:
            return False
        free = gpu_holders.free(node, self.pool.offers, holders)
        return any(free.values()) and gpu_holders.digest(holders) != validation.holders


async def observe_pool(
    client: Client, members: Sequence[Json], pool: PoolValidation, daemon_sets: list[Json]
) -> PoolSeen:
    """Read which pods or claims hold the GPUs that no run has validated."""
    names = [
        node_name(node)
        for node in members
        if (validation := record.decode(node)) and validation.missing
    ]
    holders = await gpu_holders.holders_by_node(client, names, pool.resources, pool.namespace)
    unproven = [node_name(node) for node in members if compare(node, pool, daemon_sets)]
    if pool.busy != Busy.FAIL or not unproven:
        return PoolSeen(pool, members, daemon_sets, holders)
    in_use = await gpu_holders.holders_by_node(client, unproven, pool.resources, pool.namespace)
    return PoolSeen(pool, members, daemon_sets, holders, in_use)
