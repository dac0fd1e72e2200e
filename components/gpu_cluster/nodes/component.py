"""Component that sets the labels and taints of the pools' nodes.

The component owns exactly the labels and taints that a pool declares, on the nodes of that pool,
under one field manager per pool. It does not own nodes: a node that is not in the cluster is an
error, and no Node object is created. Pools that a Node Feature Discovery rule labels are skipped.
Removing a pool or the stack removes all of its labels and taints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pulumi

from gpu_cluster.desired.pool import DesiredScheduling, PoolsScheduling
from gpu_cluster.findings import Findings
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
    """Labels and taints of all pools' nodes: one Command, whatever the number of pools."""

    TYPE = "gpucluster:index:NodeScheduling"

    pools: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: NodeSchedulingArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the Kubernetes objects and the Command."""
        super().__init__(self.TYPE, name, None, opts)
        _declare(self, name, args.scheduling.objects)
        pools = tuple(
            pool for pool in args.scheduling.pools if pool.pool not in args.scheduling.by_rule
        )
        if pools:
            run_program(
                # The dot keeps this name different from those of earlier versions, which had a
                # Command per pool.
                f"{name}.pools",
                "node-scheduling",
                "apply",
                write(PoolsScheduling(context=pools[0].context, pools=pools)),
                pulumi.ResourceOptions(parent=self),
                findings=tuple(chain.from_iterable(args.findings.values())),
                delete="release",
                has_previous_output=True,
            )
        self.pools = pulumi.Output.from_input([pool.pool for pool in args.scheduling.pools])
        self.register_outputs({"pools": self.pools})


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
