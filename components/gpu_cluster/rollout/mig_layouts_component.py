"""Component that sets the MIG layouts of the pools' nodes.

Its Command runs after the platform's release and before the validation. One Command covers the
whole stack, because whether a node may be out of use depends on the other nodes. The component owns
the label and the annotation with a node's layout, under its own field manager. When the stack is
destroyed, both are removed together with the GPU Operator's labels
(`gpu_cluster.platforms.gpu_operator.operator_labels`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pulumi

from gpu_cluster.desired.rollout import DesiredMigLayouts, DesiredRollout, MigLayoutsRequest
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.findings import dated
from gpu_cluster.operation import FINDING, run_program
from gpu_cluster.requests import write
from gpu_cluster.rollout.component import tolerant
from gpu_cluster.rollout.mig_layouts_plan import MigLayoutsPlan, words


@dataclass(frozen=True, kw_only=True)
class MigLayoutsArgs:
    """Arguments of the component `MigLayouts`.

    Attributes:
        rollout: Settings for taking nodes out of use.
        layouts: MIG layouts of the pools.
        pools: Settings for validating nodes after their change.
        private_key: SSH private key, a secret, used to read host logs if a validation fails.
        has_hosts: Whether the stack has hosts.
        plan: Nodes that the inspection found to have another layout than declared.
    """

    rollout: DesiredRollout
    layouts: DesiredMigLayouts
    pools: tuple[PoolValidation, ...]
    private_key: pulumi.Input[str]
    has_hosts: bool
    plan: MigLayoutsPlan = field(default_factory=MigLayoutsPlan)

    @property
    def needed(self) -> bool:
        """Return whether a pool declares a MIG layout, or a node still has a layout to remove."""
        return bool(self.layouts.selector) and (self.layouts.is_declared or bool(self.plan.names))


def mig_layouts_request(args: MigLayoutsArgs, private_key: str) -> MigLayoutsRequest:
    """Return the request of the program `mig-layouts`."""
    return MigLayoutsRequest(
        rollout=args.rollout,
        layouts=args.layouts,
        pools=tuple(
            replace(pool, pod=tolerant(pool.pod), private_key=private_key) for pool in args.pools
        ),
    )


class MigLayouts(pulumi.ComponentResource):
    """The MIG layouts of all nodes: one Command for the whole stack."""

    TYPE = "gpucluster:index:MigLayouts"

    def __init__(
        self, name: str, args: MigLayoutsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the Command that changes the nodes' MIG layouts."""
        super().__init__(self.TYPE, name, None, opts)
        plan_text = "; ".join(words(args.plan)) if args.plan.names else ""
        # Without hosts there is no SSH private key, so the Command's input need not be a secret.
        kubeconfig_text = (
            pulumi.Output.secret(args.private_key)
            if args.has_hosts
            else pulumi.Output.from_input("")
        )
        run_program(
            name,
            "mig-layouts",
            "apply",
            kubeconfig_text.apply(lambda text: write(mig_layouts_request(args, text))),
            pulumi.ResourceOptions(parent=self),
            environment={FINDING: dated(plan_text)} if plan_text else {},
            ignored=() if plan_text else ("environment",),
        )
        self.register_outputs({})
