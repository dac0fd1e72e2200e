"""Labels and taints of the pools' nodes.

Owns exactly the labels and taints that a pool declares, on the nodes that belong to it, under one
field manager per pool. Refuses to own nodes: a node that is not in the cluster is an error, never
a new Node object. Leaves a pool to Node Feature Discovery where a rule labels it. Takes
everything back when the pool or the stack goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_command as command

from components.nodes.pools import scheduling_document
from components.nodes.scheduling_classes import by_rule, declare
from components.operation import command_line, document, repair
from components.settings.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class NodeSchedulingArgs:
    """What `NodeScheduling` needs.

    Attributes:
        cluster: the configuration.
        stack: name of the stack, part of the field managers.
        drift: what the inspection of the cluster found to differ, by pool.
    """

    cluster: Cluster
    stack: str
    drift: Mapping[str, str] = field(default_factory=dict)


class NodeScheduling(pulumi.ComponentResource):
    """One Command per pool: a pool costs one resource, however many nodes it has."""

    TYPE = "gpucluster:index:NodeScheduling"

    pools: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: NodeSchedulingArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        declare(self, name, args.cluster, args.stack)
        for pool in args.cluster.pools:
            if by_rule(args.cluster, pool):
                continue
            line = command_line("scheduling", "apply")
            environment, ignored = repair(args.drift.get(pool.name))
            command.local.Command(
                f"{name}-{pool.name}",
                create=line,
                update=line,
                environment=environment,
                delete=command_line("scheduling", "release"),
                stdin=document(scheduling_document(args.cluster, pool, args.stack)),
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(parent=self, ignore_changes=ignored),
            )
        self.pools = pulumi.Output.from_input([pool.name for pool in args.cluster.pools])
        self.register_outputs({"pools": self.pools})
