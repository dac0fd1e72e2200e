"""What disrupts pods, rolled over the stack's hosts in waves, before the hosts' own commands.

One command for the whole stack, from the engineer's machine, as for reboots: who may be out of use
depends on the others. Its program runs the same scripts as the hosts' commands, which find all of
it done after it. Owns nothing for long: a node's cordon and taint go with its turn.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_command as command

from components.drift import dated
from components.hosts.connection import command_line as host_line
from components.hosts.container_runtime import gpu_hosts
from components.hosts.copies import Copies
from components.hosts.prepare_script import prepare_script
from components.hosts.runtime_script import runtime_script, toolkit_seconds
from components.hosts.script import Declaration
from components.hosts.settings.host import Host
from components.hosts.settings.reboot import RebootWhen
from components.hosts.software import installing
from components.nodes.pools import validated_pools
from components.nodes.resources import ALL_DISABLED
from components.nodes.settings.pool import Pool
from components.operation import FINDING, command_line
from components.platforms.namespaces import own_namespaces
from components.platforms.registry import platform_of
from components.rollout.plan import Plan, words
from components.settings.cluster import Cluster
from components.validation.component import pods
from components.validation.document import validation_document

Json = dict[str, Any]

REACH = {"name", "node", "role", "address", "port", "user", "host_key", "bastion"}
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
        cluster: the configuration.
        stack: name of the stack.
        private_key: an SSH private key, a secret.
        plan: what the inspection found that must be rolled.
        runtime_class: RuntimeClass of pods that use GPUs.
        join_token: kubeadm's bootstrap token, a secret: scripts hold it.
    """

    cluster: Cluster
    stack: str
    private_key: pulumi.Input[str]
    plan: Plan
    runtime_class: str | None
    join_token: str | None = field(default=None, repr=False)

    @functools.cached_property
    def scripts(self) -> Mapping[str, Mapping[str, Declaration]]:
        """The scripts of each host that changes, by host and phase."""
        with_runtime = {host.name for host in gpu_hosts(self.cluster)}
        scripts = {}
        for host in (change.host for change in self.plan.changes):
            seen = self.cluster.of(host)
            found = scripts[host.name] = {"prepare": prepare_script(seen, host, self.join_token)}
            if host.name in with_runtime:
                found["runtime"] = runtime_script(seen, host)
        return scripts


def rollout_document(args: RolloutArgs, private_key: str) -> Json:
    """The input of `components.rollout.roll`: the hosts that change, and no others."""
    cluster, platform = args.cluster, platform_of(args.cluster)
    pool_of = {node: pool for pool in validated_pools(cluster) for node in pool.node_names()}
    hosts = [change.host for change in args.plan.changes]
    plan = args.plan

    def layout_of(pool: Pool) -> list[str]:
        if platform.layouts is None:
            return []
        layout = platform.layouts.of(pool)
        return [layout] if layout else ["", ALL_DISABLED]

    refused = {change.host.name: plan.refusal(change) for change in plan.changes}
    used = {pool_of[host.node].name: pool_of[host.node] for host in hosts if host.node in pool_of}
    layouts = {
        node: layout_of(pool) for pool in platform.site.gpu_pools for node in pool.node_names()
    }
    made = own_namespaces(platform, cluster.validation, cluster.installer, cluster.monitoring)
    spaces = {space.name for space in made} - {cluster.validation.namespace}
    return {
        "context": cluster.kubernetes.context,
        "hosts": [
            {
                **host.model_dump(mode="json", include=REACH),
                "gpus": host.role.has_gpus,
                "upgrades": host == cluster.first_host,
                "refused": refused[host.name],
                "pool": pool_of[host.node].name if host.node in pool_of else "",
                "layouts": layouts.get(host.node, []),
                **_parts(cluster, host, args.scripts[host.name]),
            }
            for host in hosts
        ],
        "maxUnavailable": cluster.rollout.max_unavailable,
        "timeoutSeconds": cluster.reboot.timeout_seconds,
        "drainTimeoutSeconds": cluster.rollout.drain_timeout_seconds,
        "consent": sorted(cluster.rollout.evict),
        "reboot": cluster.reboot.when is RebootWhen.REQUIRED,
        "operands": {
            "spaces": sorted(spaces),
            "space": platform.namespace,
            "labels": dict(part.split("=", 1) for part in platform.servers.pods.split(",")),
        },
        "pools": {
            name: {
                **validation_document(cluster, pool, args.stack),
                "pod": tolerant(pods(cluster, pool, args.runtime_class)),
                "privateKey": private_key,
            }
            for name, pool in used.items()
        },
        "privateKey": private_key,
    }


def _parts(cluster: Cluster, host: Host, scripts: Mapping[str, Declaration]) -> Json:
    """The phases of a host, each with its script and the lines that run it."""
    seen = cluster.of(host)
    limits = {"prepare": installing(seen, host), "runtime": toolkit_seconds(seen, host)}

    def part(phase: str) -> Json:
        actions = ("apply", "fetch", "upgrade")
        lines = {one: host_line(host, seen.ssh, one, limits[phase]) for one in actions}
        return {"script": scripts[phase], **lines}

    return {phase: part(phase) if phase in scripts else None for phase in limits}


def tolerant(pod: Json) -> Json:
    """A pod's template for nodes that are still cordoned."""
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
        if args.cluster.hosts:
            line = command_line("waves", "roll")
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
                stdin=pulumi.Output.json_dumps(
                    key.apply(lambda text: rollout_document(args, text) if rolled else {})
                ),
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
