"""Component that sets the labels and taints of the pools' nodes.

The component owns exactly the labels and taints that a pool declares, on the nodes of that pool,
under one field manager per pool. It does not own nodes: a node that is not in the cluster is an
error, and no Node object is created. Pools that a Node Feature Discovery rule labels are skipped.
Removing a pool or the stack removes all of its labels and taints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pulumi

from gpu_cluster.desired.pool import DesiredScheduling
from gpu_cluster.findings import Aspect, Findings
from gpu_cluster.manifest import Manifest
from gpu_cluster.operation import run_program
from gpu_cluster.requests import write


@dataclass(frozen=True, kw_only=True)
class NodeSchedulingArgs:
    """Arguments of the component `NodeScheduling`.

    Attributes:
        scheduling: Settings that decide where pods are scheduled.
        findings: Findings of the inspection about nodes, by pool.
    """

    scheduling: DesiredScheduling
    findings: Mapping[str, Findings] = field(default_factory=dict)


class NodeScheduling(pulumi.ComponentResource):
    """Labels and taints of all pools' nodes: one Command per pool, whatever its number of nodes."""

    TYPE = "gpucluster:index:NodeScheduling"

    pools: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: NodeSchedulingArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the Kubernetes objects and one Command per pool."""
        super().__init__(self.TYPE, name, None, opts)
        _declare(self, name, args.scheduling.objects)
        pools = {pool_scheduling.pool: pool_scheduling for pool_scheduling in args.scheduling.pools}
        commands: dict[str, pulumi.Resource] = {}
        first = gaining(args.findings)
        order = TopologicalSorter(
            {pool_name: first.get(pool_name, ()) for pool_name in pools}
        ).static_order()
        for pool in (pools[pool_name] for pool_name in order if pool_name in pools):
            if pool.pool in args.scheduling.by_rule:
                continue
            commands[pool.pool] = run_program(
                f"{name}-{pool.pool}",
                "node-scheduling",
                "apply",
                write(pool),
                pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[
                        commands[earlier_pool]
                        for earlier_pool in first.get(pool.pool, ())
                        if earlier_pool in commands
                    ],
                ),
                findings=args.findings.get(pool.pool, ()),
                delete="release",
            )
        self.pools = pulumi.Output.from_input([pool.pool for pool in args.scheduling.pools])
        self.register_outputs({"pools": self.pools})


def gaining(findings: Mapping[str, Findings]) -> dict[str, frozenset[str]]:
    """Return, for each pool that loses nodes to other pools, the names of those other pools.

    The pool that gains a node must set its labels before the losing pool's Command runs, which then
    keeps them. Otherwise the node would lack its labels for a moment, and the device plugin would
    restart there. The result is empty if pools exchange nodes, because no such order exists.

    Args:
        findings: Findings of the inspection about nodes, by pool.
    """
    moves = [
        finding
        for of_pool in findings.values()
        for finding in of_pool
        if finding.aspect is Aspect.POOL
    ]
    joins = {move.name: move.now for move in moves if move.now}
    result = {
        pool: frozenset(
            joins[finding.name]
            for finding in of_pool
            if finding.aspect is Aspect.POOL and not finding.now and finding.name in joins
        )
        for pool, of_pool in findings.items()
    }
    result = {pool: gaining_pools for pool, gaining_pools in result.items() if gaining_pools}
    try:
        TopologicalSorter(result).prepare()
    except CycleError:
        return {}
    return result


def _declare(parent: pulumi.Resource, name: str, objects: Mapping[str, dict[str, Any]]) -> None:
    """Declare Kubernetes objects as children of a component.

    Args:
        parent: The component.
        name: Prefix of the resource names.
        objects: Manifests by the suffix of their resource name.
    """
    for end, manifest in objects.items():
        Manifest(
            f"{name}-{end}",
            manifest,
            pulumi.ResourceOptions(
                parent=parent,
                delete_before_replace=True,
                replace_on_changes=["value", "preemptionPolicy"]
                if manifest["kind"] == "PriorityClass"
                else [],
            ),
        )
