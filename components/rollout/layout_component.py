"""MIG layouts of the pools' nodes, after the platform that applies them, and before validation.

One command for the whole stack, as for rollouts: who may be out of use depends on the others. Owns
the label that names a node's layout, under a field manager of its own. That label goes with the
operator's own ones (`components.platforms.gpu_operator.labels`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_command as command

from components.drift import dated
from components.nodes.pools import (
    layouts_manager,
    members_document,
    validated_pools,
)
from components.nodes.resources import MIG_LABEL
from components.nodes.settings.pool import gpu_pools
from components.operation import FINDING, command_line, document
from components.platforms.registry import platform_of
from components.rollout.component import tolerant
from components.rollout.layout_plan import LayoutPlan, words
from components.settings.cluster import Cluster
from components.validation.component import pods
from components.validation.document import validation_document

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LayoutsArgs:
    """What `Layouts` needs.

    Attributes:
        cluster: the configuration.
        stack: name of the stack.
        private_key: an SSH private key, a secret; a failed validation reads hosts with it.
        plan: which nodes the inspection found to have another layout.
        runtime_class: RuntimeClass of pods that use GPUs.
    """

    cluster: Cluster
    stack: str
    private_key: pulumi.Input[str]
    plan: LayoutPlan = field(default_factory=LayoutPlan)
    runtime_class: str | None = None

    @property
    def needed(self) -> bool:
        """Whether a pool declares a layout, or a node still has one."""
        layouts = platform_of(self.cluster).layouts
        if layouts is None:
            return False
        return any(map(layouts.of, gpu_pools(self.cluster.pools))) or bool(self.plan.names)


def nodes_document(cluster: Cluster, stack: str) -> Json:
    """What says which nodes should have which layout (`components.rollout.divided.targets`)."""
    layouts, own = platform_of(cluster).layouts, cluster.scheduling.nodes
    named = [name for name, node in own.items() if MIG_LABEL in node.labels]
    return {
        "manager": layouts_manager(stack),
        "maintenance": sorted(cluster.nodes_in_maintenance),
        "members": [
            {
                **members_document(cluster, pool),
                "layout": layouts.of(pool),
                "except": sorted(set(named) & set(pool.node_names())),
            }
            for pool in gpu_pools(cluster.pools)
            if layouts is not None
        ],
    }


def layouts_document(args: LayoutsArgs, private_key: str) -> Json:
    """The input of `components.rollout.layouts`."""
    cluster, platform = args.cluster, platform_of(args.cluster)
    layouts = platform.layouts
    return {
        "context": cluster.kubernetes.context,
        **nodes_document(cluster, args.stack),
        "maxUnavailable": cluster.rollout.max_unavailable,
        "drainTimeoutSeconds": cluster.rollout.drain_timeout_seconds,
        "consent": sorted(cluster.rollout.evict),
        "timeoutSeconds": cluster.validation.timeout_seconds,
        "dividers": {"space": platform.namespace, "labels": layouts.pods if layouts else ""},
        "pools": [
            {
                **validation_document(cluster, pool, args.stack),
                "pod": tolerant(pods(cluster, pool, args.runtime_class)),
                "privateKey": private_key,
            }
            for pool in validated_pools(cluster)
        ],
    }


class Layouts(pulumi.ComponentResource):
    """One command."""

    TYPE = "gpucluster:index:Layouts"

    def __init__(
        self, name: str, args: LayoutsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        line = command_line("layouts", "apply")
        found = "; ".join(words(args.plan)) if args.plan.names else ""
        # Without hosts there is no key, and nothing to hide.
        hosts = bool(args.cluster.hosts)
        given = pulumi.Output.secret(args.private_key) if hosts else pulumi.Output.from_input("")
        command.local.Command(
            name,
            create=line,
            update=line,
            environment={FINDING: dated(found)} if found else {},
            stdin=given.apply(lambda text: document(layouts_document(args, text))),
            logging=command.local.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=[] if found else ["environment"]
            ),
        )
        self.register_outputs({})
