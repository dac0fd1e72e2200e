"""MIG layouts of the pools' nodes, after the platform that applies them, and before validation.

One command for the whole stack, as for rollouts: who may be out of use depends on the others. Owns
the label that names a node's layout, under a field manager of its own. That label goes with the
operator's own ones (`components.platforms.gpu_operator.operator_labels`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pulumi
import pulumi_command as command

from components.desired.rollout import DesiredMigLayouts, DesiredRollout, MigLayoutsRequest
from components.desired.validation import PoolValidation
from components.findings import dated
from components.operation import FINDING, command_line
from components.requests import write
from components.rollout.component import tolerant
from components.rollout.mig_layouts_plan import MigLayoutsPlan, words


@dataclass(frozen=True, kw_only=True)
class MigLayoutsArgs:
    """What `MigLayouts` needs.

    Attributes:
        rollout: how nodes are taken out of use.
        layouts: the MIG layouts.
        pools: how nodes are validated after their change.
        private_key: an SSH private key, a secret; a failed validation reads hosts with it.
        has_hosts: the stack has hosts.
        plan: which nodes the inspection found to have another layout.
    """

    rollout: DesiredRollout
    layouts: DesiredMigLayouts
    pools: tuple[PoolValidation, ...]
    private_key: pulumi.Input[str]
    has_hosts: bool
    plan: MigLayoutsPlan = field(default_factory=MigLayoutsPlan)

    @property
    def needed(self) -> bool:
        """Whether a pool declares a layout, or a node still has one."""
        return bool(self.layouts.selector) and (self.layouts.is_declared or bool(self.plan.names))


def mig_layouts_request(args: MigLayoutsArgs, private_key: str) -> MigLayoutsRequest:
    """Return the request of the program ``layouts``."""
    return MigLayoutsRequest(
        rollout=args.rollout,
        layouts=args.layouts,
        pools=tuple(
            replace(pool, pod=tolerant(pool.pod), private_key=private_key) for pool in args.pools
        ),
    )


class MigLayouts(pulumi.ComponentResource):
    """One command."""

    TYPE = "gpucluster:index:MigLayouts"

    def __init__(
        self, name: str, args: MigLayoutsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        line = command_line("mig-layouts", "apply")
        found = "; ".join(words(args.plan)) if args.plan.names else ""
        # Without hosts there is no key, and nothing to hide.
        given = (
            pulumi.Output.secret(args.private_key)
            if args.has_hosts
            else pulumi.Output.from_input("")
        )
        command.local.Command(
            name,
            create=line,
            update=line,
            environment={FINDING: dated(found)} if found else {},
            stdin=given.apply(lambda text: write(mig_layouts_request(args, text))),
            logging=command.local.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=[] if found else ["environment"]
            ),
        )
        self.register_outputs({})
