"""What disrupts pods, rolled over the stack's hosts in waves, before the hosts' own commands.

One command for the whole stack, from the engineer's machine, as for reboots: who may be out of use
depends on the others. Its program runs the same scripts as the hosts' commands, which find all of
it done after it. Owns nothing for long: a node's cordon and taint go with its turn.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pulumi_command as command

from components.desired.host import DesiredHost, Upgrade
from components.desired.rollout import (
    DesiredMigLayouts,
    DesiredRollout,
    Operands,
    Phase,
    RolledHost,
    RolloutRequest,
)
from components.desired.validation import PoolValidation
from components.findings import dated
from components.hosts.command import command_line as host_line
from components.hosts.copies import Copies
from components.hosts.phases import (
    preparation_seconds,
    prepare_script,
    runtime_script,
    runtime_seconds,
)
from components.hosts.script import Declaration
from components.kubernetes.resources import ALL_DISABLED
from components.operation import FINDING, command_line
from components.requests import write
from components.rollout.plan import Plan, words

Json = dict[str, Any]

UNSCHEDULABLE = {
    "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule",
}  # fmt: skip
"""Toleration of a cordon, as DaemonSets' pods have it (Kubernetes documentation, "DaemonSet")."""
NOTHING = ":"
"""Create line of a stack on which nothing is rolled yet."""


@dataclass(frozen=True, kw_only=True)
class RolloutArgs:
    """What `Rollout` needs.

    Attributes:
        rollout: how nodes are taken out of use.
        has_hosts: the stack has hosts.
        operands: the platform's pods.
        pools: how nodes are validated after their change.
        layouts: the MIG layouts.
        private_key: an SSH private key, a secret.
        plan: what the inspection found that must be rolled.
        join_token: kubeadm's bootstrap token, a secret: scripts hold it.
    """

    rollout: DesiredRollout
    has_hosts: bool
    operands: Operands
    pools: tuple[PoolValidation, ...]
    layouts: DesiredMigLayouts
    private_key: pulumi.Input[str]
    plan: Plan
    join_token: str | None = field(default=None, repr=False)

    @functools.cached_property
    def scripts(self) -> Mapping[str, Mapping[str, Declaration]]:
        """The scripts of each host that changes, by host and phase."""
        scripts = {}
        for host in (change.host for change in self.plan.changes):
            found = scripts[host.name] = {"prepare": prepare_script(host, self.join_token)}
            if host.configures_runtime:
                found["runtime"] = runtime_script(host)
        return scripts


def rollout_request(args: RolloutArgs, private_key: str) -> RolloutRequest:
    """Return the request of the program ``rollout``: the hosts that change, and no others."""
    pool_of = {node: pool for pool in args.pools for node in pool.nodes or ()}
    hosts = [change.host for change in args.plan.changes]
    refused = {change.host.name: args.plan.refusal(change) for change in args.plan.changes}
    used = {pool_of[host.node].pool: pool_of[host.node] for host in hosts if host.node in pool_of}
    return RolloutRequest(
        rollout=args.rollout,
        hosts=tuple(
            RolledHost(
                target=host.target,
                has_gpus=host.role.has_gpus,
                upgrades=host.upgrade is Upgrade.APPLY,
                refused=refused[host.name],
                pool=pool_of[host.node].pool if host.node in pool_of else "",
                layouts=_layouts(args.layouts, host.node),
                **_phases(host, args.scripts[host.name]),
            )
            for host in hosts
        ),
        operands=args.operands,
        pools={
            name: replace(pool, pod=tolerant(pool.pod), private_key=private_key)
            for name, pool in used.items()
        },
        private_key=private_key,
    )


def _layouts(layouts: DesiredMigLayouts, node: str) -> tuple[str, ...]:
    """Return the MIG layouts that a node may have when it is validated; none: any."""
    for pool in layouts.pools:
        if node in (pool.nodes or ()):
            return (pool.layout,) if pool.layout else ("", ALL_DISABLED)
    return ()


def _phases(host: DesiredHost, scripts: Mapping[str, Declaration]) -> dict[str, Any]:
    """Return the phases of a host, each with its script and the lines that run it."""
    limits = {"prepare": preparation_seconds(host), "runtime": runtime_seconds(host)}

    def phase(name: str) -> Phase:
        actions = ("apply", "fetch", "upgrade")
        lines = {action: host_line(host, action, limits[name]) for action in actions}
        return Phase(name=name, script=str(scripts[name]), lines=lines)

    return {name: phase(name) if name in scripts else None for name in limits}


def tolerant(pod: Json) -> Json:
    """Return a pod's template for nodes that are still cordoned."""
    spec = pod["spec"]
    return {**pod, "spec": {**spec, "tolerations": [*spec["tolerations"], UNSCHEDULABLE]}}


class Rollout(pulumi.ComponentResource):
    """One command. ``done``: what it printed. ``copies`` brings the steps to hosts before it."""

    TYPE = "gpucluster:index:Rollout"

    done: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: RolloutArgs,
        copies: Copies,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        self.done = pulumi.Output.from_input("")
        if args.has_hosts:
            line = command_line("rollout", "roll")
            rolled = bool(args.plan.changes)
            key = pulumi.Output.secret(args.private_key)
            # Said here: the engine may begin with it while the program declares the hosts.
            changing = {change.host.name: change.host for change in args.plan.changes}
            for host, scripts in args.scripts.items():
                for script in scripts.values():
                    copies.want(changing[host], script.bundles)
            self.done = command.local.Command(
                name,
                create=line if rolled else NOTHING,
                update=line,
                environment={FINDING: dated("; ".join(words(args.plan)))} if rolled else {},
                stdin=key.apply(lambda text: write(rollout_request(args, text)) if rolled else ""),
                logging=command.local.Logging.STDERR,
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    hooks=copies.before(name, changing),
                    # Between two rollouts nothing of it changes.
                    ignore_changes=["create", *(() if rolled else ("environment", "stdin"))],
                ),
            ).stdout
        self.register_outputs({})
