"""Rolls what disrupts pods over the hosts of a stack: ``roll``.

First everything is fetched on all hosts. Then node by node, in waves (`components.rollout.waves`):
the control plane upgraded where it is older than declared; cordoned, drained, its GPU pods off,
changed by the host's own scripts, rebooted if it asks for it, validated, uncordoned. A failure
leaves its node cordoned and begins no other one. What is done is on hosts and nodes, so a run that
was killed is continued by the next.

Input: ``context``, ``hosts`` (``host``: `Host.record`; ``prepare`` and ``runtime``: ``script`` and
the lines ``apply``, ``fetch`` and ``upgrade``; ``upgrades``: whether its kubeadm
upgrades the control plane; ``gpus``, ``refused``, ``pool``, ``layouts`` of MIG devices that its
pool may have), ``maxUnavailable``, ``timeoutSeconds``, ``drainTimeoutSeconds``, ``consent``,
``reboot``, ``operands``, ``pools`` (inputs of `components.validation.validate`), ``privateKey``.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import asyncssh

from components.api import Client, ClusterError, Json, connect
from components.gather import gather
from components.hosts import restart
from components.hosts.answers import NOTHING
from components.hosts.inspect import observe
from components.hosts.reach import reached, run
from components.hosts.settings.host import Host
from components.hosts.unreached import unreached
from components.nodes import drain
from components.program import main
from components.rollout import operands
from components.rollout.divided import layout
from components.rollout.inspect import left_alone, views
from components.rollout.released import can_validate
from components.rollout.target import Target, fault, refuse
from components.rollout.waves import in_waves
from components.validation.validate import validate_nodes
from config.printable import printable
from config.problem import Fault

ATTEMPTS = 2
"""Runs of a host's script: a mirror may be away for a moment, a connection may end."""
TAIL = 3
"""Lines of a script's errors that are shown."""
MARK = "rollout"
"""Value of the annotation of a node that a rollout cordoned."""


class Rollout:
    """One run. ``steps`` are methods of their own so that each can be told, and tested, alone."""

    def __init__(self, client: Client, document: Json) -> None:
        self.client = client
        self.document = document
        self.key: str = document["privateKey"]
        self.limit: float = document["timeoutSeconds"]
        self.rolled: list[str] = []

    def tell(self, target: Target, what: str) -> None:
        """A line of progress."""
        print(f"rollout: {target.host.name} {what}", file=sys.stderr, flush=True)

    async def script(self, target: Target, phase: str, action: str) -> None:
        """Runs one of a host's scripts.

        Raises:
            ClusterError: it failed, or the host does not answer; with the script's own words.
        """
        part = target.document[phase]
        try:
            async with reached(target.host, self.key) as connection:
                text = f"GC_ROLLOUT=1\n{part['script']}"
                answer = await run(connection, part[action], text, NOTHING)
        except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
            why = unreached(error, target.host, self.limit)
            found = f"no end of {phase} ({printable(why.found)})"
            raise fault(target, found, why.wanted, printable(why.cure)) from error
        if answer.status != 0:
            shown = "\n".join(answer.errors[-TAIL:]) or "no message"
            found = f"{phase} ended with status {answer.status}: {shown}"
            raise fault(target, found, "status 0", "see what it names")

    async def again(self, step: Callable[[], Awaitable[None]], target: Target) -> None:
        """A step that is tried a second time where it fails."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await step()
            except ClusterError as error:
                if attempt == ATTEMPTS:
                    raise
                self.tell(target, f"failed, tried again: {error}")

    async def fetch(self, target: Target) -> None:
        """Downloads and verifies what the host will get; nothing is installed.

        It may boot still, for a run that was killed.
        """

        async def answers() -> bool:
            return bool(await restart.boot_id_of(target.host, self.key))

        if not await drain.until(answers, self.limit):
            found, cure = f"no answer for {self.limit:.0f} s", "check that ssh works from here"
            raise fault(target, found, "a host that answers", cure)
        await self.again(lambda: self.script(target, "prepare", "fetch"), target)
        self.tell(target, "has all that it needs")

    async def empty(self, target: Target) -> None:
        """Cordons and drains the node; one that can't be drained is as before."""
        name = target.host.node
        node = await drain.node_of(self.client, name)
        if node is None:
            return
        if why := left_alone(node):
            cure = "run `up` again when the work on it is done"
            raise fault(target, f"its node {why}", "a node that nobody else works on", cure)
        await drain.cordon(self.client, node, MARK)
        self.tell(target, "cordoned")
        wait, consent = self.document["drainTimeoutSeconds"], self.document["consent"]
        await drain.drain_or_uncordon(self.client, name, wait, consent)
        self.tell(target, "drained")
        if target.document["gpus"]:
            await operands.off(self.client, name, self.document["operands"], self.limit)

    async def api_back(self, target: Target) -> None:
        """Waits for an API server that runs on the changed host, and may have started again.

        Raises:
            ClusterError: it isn't ready in time.
        """
        if target.is_alone and not await drain.until(self.client.is_ready, self.limit):
            found = f"an API server that isn't ready {self.limit:.0f} s after its host's change"
            cure = "look at kubelet's log there, then run `up`: it goes on where it stopped"
            raise fault(target, found, "/readyz: ok", cure)

    async def change(self, target: Target) -> None:
        """Changes the host by its scripts, with a boot between them where it asks for one."""
        await self.again(lambda: self.script(target, "prepare", "apply"), target)
        if await self.boot(target):
            # What waited for the boot: modules that are loaded, daemons that are started.
            await self.again(lambda: self.script(target, "prepare", "apply"), target)
        if target.document["runtime"]:
            await self.again(lambda: self.script(target, "runtime", "apply"), target)
        await self.api_back(target)
        self.tell(target, "changed")

    async def boot(self, target: Target) -> bool:
        """Reboots the host where it asks for that; whether it did."""
        host = target.host
        facts = (await observe([host], self.key))[host.name]
        if facts.error:
            raise fault(target, facts.error, facts.wanted, facts.cure)
        if not facts.reboot:
            return False
        why = printable("; ".join(facts.reboot))
        if not self.document["reboot"]:
            cure = "declare reboot.when: required, then run `up` again; its node stays cordoned"
            raise fault(target, f"a reboot needed ({why})", "leave to reboot it", cure)
        self.tell(target, f"reboots: {why}")
        await restart.restart(host, self.key, facts.boot_id, self.limit)
        return True

    async def release(self, target: Target) -> None:
        """Validates the node and gives it to the scheduler again."""
        name = target.host.node
        if await drain.node_of(self.client, name) is None:
            return
        await operands.on(self.client, name)
        await self.ready(name)
        pool = self.document["pools"].get(target.document["pool"])
        if pool and await self.can_validate(target, pool):
            await validate_nodes(self.client, pool, {name})
            self.tell(target, "validated")
        elif pool:
            self.tell(target, "is validated after the rollout: what it needs comes later")
        node = await drain.node_of(self.client, name)
        if node is not None:
            await drain.uncordon(self.client, node)

    async def can_validate(self, target: Target, pool: Json) -> bool:
        """Whether validation pods can run, and whether the node's GPUs are divided by then."""
        wanted = target.document["layouts"]
        node = await drain.node_of(self.client, target.host.node)
        if wanted and node and layout(node) not in wanted:
            return False
        return await can_validate(self.client, pool)

    async def ready(self, name: str) -> None:
        """Waits for a node's kubelet.

        Raises:
            ClusterError: it isn't ready in time.
        """

        async def is_ready() -> bool:
            node = await drain.node_of(self.client, name)
            return node is None or drain.ready(node)

        if not await drain.until(is_ready, self.limit):
            found = f"a node that isn't ready {self.limit:.0f} s after its change"
            cure = "look at kubelet's log there; it stays cordoned, and `up` goes on with it"
            raise ClusterError(Fault(f"node {name}", found, "Ready", cure))

    async def roll(self, target: Target) -> None:
        """All of one node."""
        if target.document["upgrades"]:
            # Not tried again: kubeadm has undone what failed, and a person should see why.
            await self.script(target, "prepare", "upgrade")
            await self.api_back(target)
            self.tell(target, "has a control plane that is not older than declared")
        await self.empty(target)
        await self.change(target)
        await self.release(target)
        self.rolled.append(target.host.name)
        self.tell(target, f"done, {len(self.rolled)} of {len(self.document['hosts'])}")


async def roll(document: Json) -> Json:
    """Rolls the hosts of the input; gives back their names.

    Raises:
        ClusterError: what stopped it, and which hosts were not begun.
    """
    targets = [Target(Host.model_validate(part["host"]), part) for part in document["hosts"]]
    async with connect(document["context"]) as client:
        rollout = Rollout(client, document)
        seen = await views(client, [target.host.node for target in targets], document["consent"])
        refuse(targets, seen)
        await gather(rollout.fetch, targets)
        joined = [target for target in targets if target.host.node in seen]
        # Not in the cluster, so nobody's pods are on them.
        await gather(rollout.roll, [target for target in targets if target not in joined])
        alone = [target for target in joined if target.is_alone]
        rest = [target for target in joined if not target.is_alone]
        await in_waves(
            alone, rest, document["maxUnavailable"], rollout.roll, lambda item: item.host.name
        )
    return {"rolled": rollout.rolled}


if __name__ == "__main__":
    main({"roll": roll})
