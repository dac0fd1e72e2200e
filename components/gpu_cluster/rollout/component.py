"""Component that rolls disruptive host changes over the stack's nodes in waves.

One Command on the engineer's machine covers the whole stack, because whether a node may be out of
use depends on the other nodes. It runs before the hosts' own Commands, with the same scripts, so
the hosts' Commands find everything already applied. The component owns no lasting objects: a node's
cordon and taint are removed when the node is done.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.rollout import (
    DesiredMigLayouts,
    DesiredRollout,
    Operands,
    Phase,
    RolledHost,
    RolloutRequest,
)
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.findings import dated
from gpu_cluster.hosts.command import command_line as host_line
from gpu_cluster.hosts.copies import Copies
from gpu_cluster.hosts.phases import (
    preparation_seconds,
    prepare_script,
    runtime_script,
    runtime_seconds,
)
from gpu_cluster.hosts.script import Declaration
from gpu_cluster.kubernetes.resources import ALL_DISABLED
from gpu_cluster.operation import FINDING, run_program
from gpu_cluster.requests import write
from gpu_cluster.rollout.plan import Plan, words

Json = dict[str, Any]

UNSCHEDULABLE = {
    "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule",
}  # fmt: skip
"""Toleration of cordoned nodes, as DaemonSet pods have (Kubernetes documentation, "DaemonSet")."""
NOTHING = ":"
"""Shell line of the Command's `create` if nothing has to be rolled yet: do nothing."""


@dataclass(frozen=True, kw_only=True)
class RolloutArgs:
    """Arguments of the component `Rollout`.

    Attributes:
        rollout: Section `rollout` of the stack file: how nodes are taken out of use.
        has_hosts: Whether the stack has hosts.
        operands: Labels and namespaces that identify the platform's pods.
        pools: Settings for validating nodes after their change.
        layouts: MIG layouts of the pools.
        plan: Hosts that the inspection found to need a rollout.
        join_token: kubeadm's bootstrap token, a secret that the scripts contain.
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
        """Return the scripts of each changed host, by host name and phase."""
        scripts = {}
        for change in self.plan.changes:
            host = change.host
            host_scripts = scripts[host.name] = {"prepare": prepare_script(host, self.join_token)}
            if host.configures_runtime or change.undoes_runtime:
                host_scripts["runtime"] = runtime_script(host)
        return scripts


def rollout_request(args: RolloutArgs, private_key: str) -> RolloutRequest:
    """Return the request of the program `rollout`, with only the hosts that change."""
    pool_of = {node: pool for pool in args.pools for node in pool.nodes or ()}
    hosts = [change.host for change in args.plan.changes]
    refused = {change.host.name: args.plan.refusal(change) for change in args.plan.changes}
    # A node whose runtime is undone gets its GPUs again from the platform that comes later.
    undone = {change.host.name for change in args.plan.changes if change.undoes_runtime}
    pool_of = {
        host.node: pool_of[host.node]
        for host in hosts
        if host.node in pool_of and host.name not in undone
    }
    used = {pool.pool: pool for pool in pool_of.values()}
    return RolloutRequest(
        rollout=args.rollout,
        hosts=tuple(
            RolledHost(
                target=host.target,
                has_gpus=host.role.has_gpus,
                upgrade=host.upgrade,
                undoes_runtime=host.name in undone,
                refused=refused[host.name],
                pool=pool_of[host.node].pool if host.node in pool_of else "",
                layouts=_allowed_layouts(args.layouts, host.node),
                **_phases_of_host(host, args.scripts[host.name]),
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


def _allowed_layouts(layouts: DesiredMigLayouts, node: str) -> tuple[str, ...]:
    """Return the MIG layouts that a node may have when it is validated; empty if all may."""
    for pool in layouts.pools:
        if node in (pool.nodes or ()):
            return (pool.layout,) if pool.layout else ("", ALL_DISABLED)
    return ()


def _phases_of_host(host: DesiredHost, scripts: Mapping[str, Declaration]) -> dict[str, Any]:
    """Return the phases of a host's change: the script of each, and the shell lines that run it."""
    limits = {"prepare": preparation_seconds(host), "runtime": runtime_seconds(host)}

    def phase(name: str) -> Phase:
        actions = ("apply", "fetch", "upgrade", "undo")
        lines = {action: host_line(host, action, limits[name]) for action in actions}
        return Phase(name=name, script=str(scripts[name]), lines=lines)

    return {name: phase(name) if name in scripts else None for name in limits}


def tolerant(pod: Json) -> Json:
    """Return a copy of a pod template with a toleration for cordoned nodes."""
    spec = pod["spec"]
    return {**pod, "spec": {**spec, "tolerations": [*spec["tolerations"], UNSCHEDULABLE]}}


class Rollout(pulumi.ComponentResource):
    """The rollout of disruptive host changes: one Command for the whole stack.

    The output `done` is the Command's standard output. The script files are uploaded to the hosts
    before the Command runs.
    """

    TYPE = "gpucluster:index:Rollout"

    done: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: RolloutArgs,
        copies: Copies,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Declare the Command that runs the rollout, if the stack has hosts."""
        super().__init__(self.TYPE, name, None, opts)
        self.done = pulumi.Output.from_input("")
        if args.has_hosts:
            rolled = bool(args.plan.changes)
            key = pulumi.Output.secret(args.private_key)
            # Register the files now: the engine may run this Command while the program declares the
            # hosts.
            changing = {change.host.name: change.host for change in args.plan.changes}
            for host, scripts in args.scripts.items():
                for script in scripts.values():
                    copies.want(changing[host], script.bundles)
            self.done = run_program(
                name,
                "rollout",
                "roll",
                key.apply(lambda text: write(rollout_request(args, text)) if rolled else ""),
                pulumi.ResourceOptions(parent=self, hooks=copies.before(name, changing)),
                create=None if rolled else NOTHING,
                environment={FINDING: dated("; ".join(words(args.plan)))} if rolled else {},
                # Ignore changed inputs if no host needs a rollout, so that Pulumi does not run the
                # Command.
                ignored=("create", *(() if rolled else ("environment", "stdin"))),
            ).stdout
        self.register_outputs({})
