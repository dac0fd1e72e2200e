"""Program that reboots the hosts whose preparation requested a reboot: action `apply`.

A host requests a reboot with the file `/run/gpu-cluster/reboot-required`, which disappears at boot.
The host's node is drained before the reboot and uncordoned after it. The boot IDs before and after
are compared, so that no host is rebooted twice or wrongly counts as rebooted. After the first host
that does not come back, no other host is rebooted.
Input: `gpu_cluster.desired.rollout.RebootRequest`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass

from gpu_cluster.desired.host import Target
from gpu_cluster.desired.rollout import DesiredRollout, RebootRequest
from gpu_cluster.hosts.kubeadm.kubeconfig import is_there
from gpu_cluster.hosts.observed.inspect import observe_hosts
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, connect
from gpu_cluster.nodes import control_planes, drain
from gpu_cluster.program import main
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.ssh.answers import BOOT_ID, NOTHING, SHORT, Channel, Unreadable, exactly
from gpu_cluster.ssh.client import printed, reached, run
from gpu_cluster.ssh.login import Login, LoginFailed, explain_script
from gpu_rules.faults import Fault

DIAL = 10.0
"""Seconds for one short command on a booting host, after the login."""
KUBELET = "/etc/kubernetes/kubelet.conf"
"""The kubelet's credentials, which exist if the host is a node of a cluster."""
MEMBER = Channel("member", SHORT, exactly("member", "(?:node)?", "`node`, or nothing"))
READ_BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class RebootLimits:
    """Limits of one host's reboot.

    Attributes:
        boot: Seconds until the host must respond again.
        drain: Seconds until the node's pods must be gone.
        consent: Losses of pods that the user accepts (`rollout.evict`).
    """

    boot: float
    drain: float
    consent: tuple[str, ...] = ()


class Turns:
    """Limits how many hosts are down at a time; only one of them may be a control-plane host.

    After a host has failed, no other host may go down.
    """

    def __init__(self, at_once: int) -> None:
        """Create the limit: at most `at_once` hosts may be down at a time."""
        self._all = asyncio.Semaphore(at_once)
        self._control_plane = asyncio.Semaphore(1)
        self.failed = ""

    @contextlib.asynccontextmanager
    async def turn(self, name: str, role: Role) -> AsyncIterator[None]:
        """Wait until a host may go down; it counts as down until the context ends.

        Raises:
            ClusterError: Another host has failed before.
        """
        async with contextlib.AsyncExitStack() as stack:
            if role.is_control_plane:
                await stack.enter_async_context(self._control_plane)
            await stack.enter_async_context(self._all)
            if self.failed:
                found = f"no reboot of this host, because that of {self.failed} failed"
                cure = f"fix {self.failed}, then run again"
                raise ClusterError(Fault(f"host {name}", found, f"{self.failed} up again", cure))
            try:
                yield
            except BaseException:
                self.failed = self.failed or name
                raise


def reboot_command(user: str, boot_id: str) -> str:
    """Return the command that reboots a host if its boot ID is still the inspected one.

    The boot ID was read from a host, so it is an argument of the shell script and not part of its
    text.
    """
    guarded = f'[ "$({READ_BOOT_ID})" = "$1" ] && exec systemctl reboot'
    line = shlex.join(["sh", "-c", guarded, "reboot", boot_id])
    return line if user == "root" else f"sudo -n {line}"


async def read_boot_id(host: Target, key: str) -> str:
    """Return the host's current boot ID.

    Raises:
        LoginFailed: The login failed at one of its stages.
    """
    try:
        return await printed(host, key, f"{READ_BOOT_ID}\n", DIAL, BOOT_ID)
    except Unreadable as error:
        raise LoginFailed(explain_script(Login(host), str(error), "")) from None


async def boot_id_of(host: Target, key: str) -> str:
    """Return the host's current boot ID; empty if the host can't be reached."""
    with contextlib.suppress(LoginFailed):
        return await read_boot_id(host, key)
    return ""


async def restart(host: Target, key: str, before: str, limit: float) -> str:
    """Reboot one host, wait for its next boot, and return the new boot ID.

    Raises:
        ClusterError: The boot ID before the reboot is unknown, or the host does not respond with a
            new boot ID within `limit` seconds.
    """
    if not before:
        found = "no boot id (/proc/sys/kernel/random/boot_id)"
        cure = "check /proc on the host's console"
        raise ClusterError(
            Fault(f"host {host.name}", found, "a boot id, by which a reboot is detected", cure)
        )
    # The connection ends when the system goes down; that is not a failure.
    with contextlib.suppress(LoginFailed):
        async with reached(host, key) as connection:
            await run(connection, reboot_command(host.user, before), "", NOTHING, DIAL)
    now = ""

    async def booted() -> bool:
        nonlocal now
        now = await boot_id_of(host, key)
        return now not in ("", before)

    if not await drain.until(booted, limit):
        state = "the boot id from before" if now else "no answer"
        raise ClusterError(
            Fault(
                f"host {host.name}",
                f"{state} {limit:.0f} s after its reboot",
                "a new boot",
                "check its console, then run `up` again; other hosts were not changed",
            )
        )
    return now


async def node_of(client: Client | None, host: Target, key: str) -> Json | None:
    """Return the host's Node, or None if the host is not in a cluster yet.

    Raises:
        ClusterError: The host is a node of a cluster that can't be reached from here, or the host
            can't be reached.
    """
    if client is not None:
        return await drain.node_of(client, host.node)
    try:
        is_node = await printed(host, key, f"[ ! -f {KUBELET} ] || echo node\n", DIAL, MEMBER)
    except LoginFailed as error:
        login_failure = error.failure
        raise ClusterError(
            Fault(
                f"host {host.name}", login_failure.found, login_failure.wanted, login_failure.cure
            )
        ) from None
    except Unreadable as error:
        found = f"no answer to the question whether this host is a node ({error})"
        cure = "check which machine responds at that address"
        raise ClusterError(Fault(f"host {host.name}", found, "an answer", cure)) from None
    if is_node:
        cure = "write `pulumi stack output --show-secrets kubeconfig` to a file of KUBECONFIG"
        found = "a node whose cluster has no context on this machine"
        raise ClusterError(Fault(f"host {host.name}", found, "a context, to drain the node", cure))
    return None


@contextlib.asynccontextmanager
async def cluster_of(rollout: DesiredRollout) -> AsyncIterator[Client | None]:
    """Yield a client of the cluster.

    The client is None if the stack creates the cluster and the local kubeconfig has no context of
    the cluster yet.
    """
    if rollout.makes_cluster and not is_there(rollout.context):
        yield None
        return
    async with connect(rollout.context) as client:
        yield client


async def give_back(client: Client | None, node: Json | None, limit: float) -> None:
    """Wait until a node that this program cordoned is ready again, and uncordon it.

    Raises:
        ClusterError: The node is not ready after `limit` seconds.
    """
    if client is None or node is None or not drain.cordoned_by_us(node):
        return
    name = node["metadata"]["name"]
    found: Json | None = None

    async def back() -> bool:
        nonlocal found
        # The API server may run on the host that is booting.
        with contextlib.suppress(ClusterError, OSError):
            found = await drain.node_of(client, name)
        return found is not None and drain.ready(found)

    if not await drain.until(back, limit) or found is None:
        raise ClusterError(
            Fault(
                f"node {name}",
                f"a node that isn't ready {limit:.0f} s after its host's reboot",
                "Ready",
                "check the kubelet's log there; the node stays cordoned until `up` uncordons it",
            )
        )
    await drain.uncordon(client, found)


async def one(
    client: Client | None, host: Target, key: str, before: str, limits: RebootLimits
) -> Json:
    """Drain, reboot and uncordon one host."""
    node = await node_of(client, host, key)
    is_member = client is not None and node is not None and host.role.is_control_plane
    if client is not None and is_member:
        await control_planes.require_members(client, host.node)
    if client is not None and node is not None:
        await drain.cordon(client, node, before)
        try:
            await drain.drain(client, host.node, limits.drain, limits.consent)
        except ClusterError:
            if (node := await drain.node_of(client, host.node)) is not None:
                await drain.uncordon(client, node)
            raise
        node = await drain.node_of(client, host.node)
    after = await restart(host, key, before, limits.boot)
    await give_back(client, node, limits.boot)
    if client is not None and is_member:
        await control_planes.wait_members(client, host.node, limits.boot)
    return {"before": before, "after": after}


async def apply(request: RebootRequest) -> Json:
    """Reboot the hosts that need it, and uncordon nodes that an earlier run left cordoned.

    Raises:
        ClusterError: A host failed; hosts after it were not rebooted.
    """
    key, hosts, rollout = request.private_key, request.hosts, request.rollout
    waits = rollout.boot_timeout_seconds, rollout.drain_timeout_seconds
    limits = RebootLimits(*waits, rollout.consent)
    turns = Turns(rollout.max_unavailable)
    facts = await observe_hosts(hosts, key)
    asking = [host for host in hosts if facts[host.name].reboot]
    async with cluster_of(rollout) as client:

        async def run(host: Target) -> Json:
            host_facts = facts[host.name]
            async with turns.turn(host.name, host.role):
                done = await one(client, host, key, host_facts.boot_id, limits)
            return {"host": host.name, "reasons": list(host_facts.reboot), **done}

        for host in hosts:
            if client is not None and host not in asking and not facts[host.name].error:
                await give_back(client, await drain.node_of(client, host.node), limits.boot)
        results = await asyncio.gather(*map(run, asking), return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    for failure in failures:
        if not isinstance(failure, ClusterError):
            raise failure
    faults = [fault for failure in failures for fault in getattr(failure, "faults", ())]
    if faults:
        raise ClusterError(*faults)
    return {"rebooted": results}


if __name__ == "__main__":
    main(RebootRequest, {"apply": apply})
