"""Program that rolls disruptive changes over the hosts of a stack: action `roll`.

First all hosts download what they need. Then each node is changed in turn, in waves
(`gpu_cluster.rollout.waves`): the control plane is upgraded if it is older than declared, the node
is cordoned and drained, its GPU pods are stopped, the host's own scripts change the host, the host
reboots if needed, and the node is validated and uncordoned. After a failure the failed node stays
cordoned and no other node is started. All progress is recorded on hosts and nodes, so the next run
continues a run that was killed.
Input: `gpu_cluster.desired.rollout.RolloutRequest`.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence

from gpu_cluster.desired.rollout import Phase, RolledHost, RolloutRequest
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.hosts.reboot import reboot
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes import control_planes, drain
from gpu_cluster.program import main
from gpu_cluster.rollout import operands
from gpu_cluster.rollout.inspect import left_alone, views
from gpu_cluster.rollout.mig_targets import layout
from gpu_cluster.rollout.target import fault, refuse
from gpu_cluster.rollout.waves import in_waves
from gpu_cluster.ssh.answers import NOTHING
from gpu_cluster.ssh.client import reached, run
from gpu_cluster.ssh.login import LoginFailed, LoginFailure
from gpu_cluster.validation.node_annotations import can_validate
from gpu_cluster.validation.validation import validate_nodes
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

ATTEMPTS = 2
"""Attempts to run a host's script, because a mirror or a connection may fail for a moment."""
TAIL = 3
"""Number of last lines of a script's error output that a message shows."""
MARK = "rollout"
"""Value of the annotation on a node that a rollout cordoned."""


class RolloutRun:
    """One execution of the program that rolls changes over hosts.

    Each step is a method, so that it can be logged and tested alone.
    """

    def __init__(self, client: Client, request: RolloutRequest) -> None:
        """Create the rollout's execution for a request."""
        self.client = client
        self.request = request
        self.key = request.private_key
        self.limit: float = request.rollout.boot_timeout_seconds
        self.rolled: list[str] = []

    def tell(self, host: RolledHost, message: str) -> None:
        """Print a line of progress on standard error."""
        print(f"rollout: {host.target.name} {message}", file=sys.stderr, flush=True)

    async def script(self, host: RolledHost, phase: Phase, action: str) -> None:
        """Run one of a host's scripts.

        Raises:
            ClusterError: The script failed, or the host could not be reached. The message contains
                the script's last errors.
        """
        try:
            async with reached(host.target, self.key) as connection:
                text = f"GC_ROLLOUT=1\n{phase.script}"
                result = await run(connection, phase.lines[action], text, NOTHING)
        except LoginFailed as error:
            step_failure = error.failure
            raise fault(
                host,
                f"{phase.name} did not end: {step_failure.found}",
                step_failure.wanted,
                step_failure.cure,
            ) from error
        if result.status != 0:
            output = "\n".join(result.errors[-TAIL:]) or "no message"
            found = f"{phase.name} ended with status {result.status}: {output}"
            raise fault(
                host, found, "status 0", "correct what the output names, then run `up` again"
            )

    async def again(self, step: Callable[[], Awaitable[None]], host: RolledHost) -> None:
        """Run a step of the rollout; if it fails, run it a second time."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await step()
            except ClusterError as error:
                if attempt == ATTEMPTS:
                    raise
                self.tell(host, f"failed, tried again: {error}")

    async def fetch(self, host: RolledHost) -> None:
        """Download and verify everything that the host will install; install nothing.

        After a run that was killed the host may still be booting, so this step waits for the host
        first.
        """
        failure: LoginFailure | None = None

        async def answers() -> bool:
            nonlocal failure
            try:
                await reboot.read_boot_id(host.target, self.key)
            except LoginFailed as error:
                failure = error.failure
                return False
            return True

        if not await drain.until(answers, self.limit) and failure is not None:
            found = f"for {self.limit:.0f} s {failure.found}"
            raise fault(host, found, failure.wanted, failure.cure)
        await self.again(lambda: self.script(host, host.prepare, "fetch"), host)
        self.tell(host, "has all that it needs")

    async def empty(self, host: RolledHost) -> None:
        """Cordon and drain the host's node and stop its GPU pods.

        The node is uncordoned again if it can't be drained.
        """
        name = host.target.node
        node = await drain.node_of(self.client, name)
        if node is None:
            return
        if reason := left_alone(node):
            cure = "run `up` again when the work on it is done"
            raise fault(host, f"its node {reason}", "a node that no other run changes", cure)
        await drain.cordon(self.client, node, MARK)
        self.tell(host, "cordoned")
        bounds = self.request.rollout
        await drain.drain_or_uncordon(
            self.client, name, bounds.drain_timeout_seconds, bounds.consent
        )
        self.tell(host, "drained")
        if host.has_gpus:
            await operands.off(self.client, name, self.request.operands, self.limit)

    async def require_members(self, host: RolledHost) -> None:
        """Check that no other control plane is down, before one of several is changed."""
        if host.target.role.is_control_plane:
            await control_planes.require_members(self.client, host.target.node)

    async def api_back(self, host: RolledHost) -> None:
        """Wait until the API server on a changed control plane host is ready again.

        With several control planes, wait for all of them.

        Raises:
            ClusterError: The API server is not ready in time.
        """
        if host.target.role.is_control_plane and not await drain.until(
            self.client.is_ready, self.limit
        ):
            found = f"an API server that isn't ready {self.limit:.0f} s after its host's change"
            cure = "check the kubelet's log there, then run `up`: it continues where it stopped"
            raise fault(host, found, "/readyz: ok", cure)
        if host.target.role.is_control_plane:
            await control_planes.wait_members(self.client, host.target.node, self.limit)

    async def change(self, host: RolledHost) -> None:
        """Run the scripts that change the host, and reboot the host in between if needed."""
        await self.again(lambda: self.script(host, host.prepare, "apply"), host)
        if await self.boot(host):
            # Run the scripts again for steps that need the reboot, such as loading kernel modules.
            await self.again(lambda: self.script(host, host.prepare, "apply"), host)
        if (runtime := host.runtime) is not None:
            action = "undo" if host.undoes_runtime else "apply"
            await self.again(lambda: self.script(host, runtime, action), host)
        await self.api_back(host)
        self.tell(host, "changed")

    async def boot(self, host: RolledHost) -> bool:
        """Reboot the host if it requests a reboot; return whether it was rebooted."""
        target = host.target
        facts = (await observe_hosts([target], self.key))[target.name]
        if facts.error:
            raise fault(host, facts.error, facts.wanted, facts.cure)
        if not facts.reboot:
            return False
        reasons = printable("; ".join(facts.reboot))
        if not self.request.rollout.boots:
            cure = "declare reboot.when: required, then run `up` again; its node stays cordoned"
            raise fault(host, f"a reboot needed ({reasons})", "permission to reboot the host", cure)
        self.tell(host, f"reboots: {reasons}")
        await reboot.restart(target, self.key, facts.boot_id, self.limit)
        return True

    async def release(self, host: RolledHost) -> None:
        """Validate the node and uncordon it."""
        name = host.target.node
        if await drain.node_of(self.client, name) is None:
            return
        await operands.on(self.client, name)
        await self.ready(name)
        pool = self.request.pools.get(host.pool)
        if pool and await self.can_validate(host, pool):
            await validate_nodes(self.client, pool, {name})
            self.tell(host, "validated")
        elif pool:
            self.tell(
                host, "is validated after the rollout: objects that it needs are created later"
            )
        node = await drain.node_of(self.client, name)
        if node is not None:
            await drain.uncordon(self.client, node)

    async def can_validate(self, host: RolledHost, pool: PoolValidation) -> bool:
        """Return whether validation pods can run and the node already has its MIG layout."""
        allowed = host.layouts
        node = await drain.node_of(self.client, host.target.node)
        if allowed and node and layout(node) not in allowed:
            return False
        return await can_validate(self.client, pool)

    async def ready(self, name: str) -> None:
        """Wait until a node's kubelet is ready.

        Raises:
            ClusterError: The node is not ready in time.
        """

        async def is_ready() -> bool:
            node = await drain.node_of(self.client, name)
            return node is None or drain.ready(node)

        if not await drain.until(is_ready, self.limit):
            found = f"a node that isn't ready {self.limit:.0f} s after its change"
            cure = (
                "check the kubelet's log there; the node stays cordoned, and `up` continues with it"
            )
            raise ClusterError(Fault(f"node {name}", found, "Ready", cure))

    async def upgrade(self, host: RolledHost) -> None:
        """Upgrade the control plane on a host, while its pods run.

        The upgrade is not retried: kubeadm has rolled back a failed upgrade, and a person should
        see why.
        """
        await self.require_members(host)
        await self.script(host, host.prepare, "upgrade")
        await self.api_back(host)
        self.tell(host, "has a control plane that is not older than declared")

    async def roll(self, host: RolledHost) -> None:
        """Run all other steps of one host: cordon, drain, change, validate, uncordon."""
        await self.require_members(host)
        await self.empty(host)
        await self.change(host)
        await self.release(host)
        self.rolled.append(host.target.name)
        self.tell(host, f"done, {len(self.rolled)} of {len(self.request.hosts)}")

    async def roll_nodes(self, hosts: Sequence[RolledHost]) -> None:
        """Upgrade all control planes, then change the hosts of nodes in waves."""
        workers = [host for host in hosts if not host.target.role.is_control_plane]
        alone = await self.mending_first([host for host in hosts if host not in workers])
        # No kubelet may be newer than an API server that it may reach through the endpoint.
        upgraded = [host for host in alone if host.upgrade.is_control_plane]
        await in_waves(upgraded, [], 1, self.upgrade, name_of, workers)
        at_once = self.request.rollout.max_unavailable
        await in_waves(alone, workers, at_once, self.roll, name_of)

    async def mending_first(self, hosts: Sequence[RolledHost]) -> list[RolledHost]:
        """Return control-plane hosts in the order of their change: one that is down comes first.

        A change that was killed may have left it down, and no other may change until it is mended.
        """
        if not hosts:
            return []
        down = (await control_planes.observe_static_pods(self.client)).down.values()
        return sorted(hosts, key=lambda host: host.target.node not in down)


def name_of(host: RolledHost) -> str:
    """Return the name of a host."""
    return host.target.name


async def roll(request: RolloutRequest) -> Json:
    """Change the hosts of the request in waves, and return their names.

    Raises:
        ClusterError: A host failed; the error also names the hosts that were not started.
    """
    hosts, bounds = request.hosts, request.rollout
    async with connect(bounds.context) as client:
        rollout = RolloutRun(client, request)
        node_views = await views(client, [host.target.node for host in hosts], bounds.consent)
        refuse(hosts, node_views)
        await gather(rollout.fetch, hosts)
        joined = [host for host in hosts if host.target.node in node_views]
        # Hosts whose nodes are not in the cluster run no pods, so they are changed in parallel.
        await gather(rollout.roll, [host for host in hosts if host not in joined])
        await rollout.roll_nodes(joined)
    return {"rolled": rollout.rolled}


if __name__ == "__main__":
    main(RolloutRequest, {"roll": roll})
