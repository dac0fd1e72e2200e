"""B8: time of a rollout of N nodes, divided by the minimum time of its batches.

The rollout is this project's own. It cordons, taints and evicts through a real API server, on
simulated nodes. A pause of `SCRIPT` seconds replaces each script that would run on a host. One host
in twenty fails its first attempt.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.desired.host import Target, Upgrade
from gpu_cluster.desired.rollout import (
    DesiredRollout,
    Operands,
    Phase,
    RolledHost,
    RolloutRequest,
)
from gpu_cluster.kubernetes.api import Client, ClusterError, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.inspect import list_nodes
from gpu_cluster.rollout.rollout import RolloutRun
from gpu_cluster.rollout.waves import in_waves
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.ssh import SshLimits
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator.hardware import hardware_of
from gpu_cluster_lab.simulator.hosts.model import cluster_dir
from gpu_rules.faults import Fault
from lab.benchmarks.measure import write
from lab.benchmarks.project import ROOT

GOAL = 1.15
SIZES = {20: 2, 100: 5}
"""Number of nodes, and how many of them may be unavailable at the same time."""
SCRIPT = 4.0
"""Seconds that a host's scripts take."""
FAILS = 20
"""One of this number of hosts fails its first attempt."""
ALONE = 5
"""Number of nodes that are first rolled out one by one; their median time counts."""


@dataclass(frozen=True)
class Point:
    """Result of a rollout of a given number of nodes.

    Attributes:
        seconds: Duration of the whole rollout.
        one: Median seconds of a rollout of one node alone.
        at_once: Declared maximum of unavailable nodes.
        most: Largest number of nodes that were unavailable at the same time.
        again: Number of hosts that needed a second attempt.
        ratio: `seconds`, divided by the number of batches times `one`.
    """

    seconds: float
    one: float
    at_once: int
    most: int
    again: int
    ratio: float


class Paused(RolloutRun):
    """This project's rollout, with pauses of `SCRIPT` seconds in place of scripts on hosts."""

    def __init__(self, client: Client, request: RolloutRequest, failing: set[str]) -> None:
        """Prepare a rollout in which the hosts `failing` fail their first attempt."""
        super().__init__(client, request)
        self.failing = failing
        self.again_on: list[str] = []

    def tell(self, host: RolledHost, what: str) -> None:
        """Print nothing: the progress messages of a hundred nodes would be too many."""

    async def script(self, host: RolledHost, phase: Phase, action: str) -> None:
        """Pause instead of running a script on a host; fail once if the host is in `failing`."""
        await asyncio.sleep(SCRIPT)
        if (name := host.target.name) in self.failing:
            self.failing.remove(name)
            self.again_on.append(name)
            raise ClusterError(Fault(name, "a failure", "none", "a second attempt"))

    async def boot(self, host: RolledHost) -> bool:
        """Return False: a simulated host is never rebooted."""
        return False


def host(name: str) -> RolledHost:
    """Return a rolled host with a placeholder address; the benchmark never connects to it."""
    target = Target(
        name=name,
        node=name,
        role=Role.GPU_WORKER,
        address="127.0.0.1",
        port=22,
        user="root",
        host_key="",
        bastion=None,
        ssh=SshLimits(),
    )
    prepare = Phase(name="prepare", script="", lines={})
    return RolledHost(
        target=target, prepare=prepare, runtime=None, has_gpus=True, upgrade=Upgrade.NODE
    )


def request(context: str, names: list[str]) -> RolloutRequest:
    """Return a rollout request for the nodes in `names`."""
    return RolloutRequest(
        rollout=DesiredRollout(
            context=context,
            makes_cluster=False,
            max_unavailable=1,
            drain_timeout_seconds=60,
            consent=("unmanaged",),
            boots=False,
            boot_timeout_seconds=60,
        ),
        hosts=tuple(map(host, names)),
        operands=Operands(spaces=(), namespace="kube-system", labels={"app": "none"}),
        pools={},
        private_key="",
    )


@contextmanager
def cluster(nodes: int) -> Iterator[str]:
    """Start an embedded cluster with `nodes` nodes; yield the name of its kubeconfig context."""
    name = f"b8-{os.getpid()}"
    document = {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{name}"},
        "platform": "device-plugin",
        "pools": [{"name": "a100", "nodes": [f"gpu-[1-{nodes}]"], "gpusPerNode": 8}],
    }
    try:
        declared = load(document)
        hardware = hardware_of(declared.pools, declared.hosts)
        os.environ["KUBECONFIG"] = str(simulator.start(name, hardware).kubeconfig)
        yield f"gpu-cluster-{name}"
    finally:
        simulator.down(name)
        shutil.rmtree(cluster_dir(name), ignore_errors=True)


async def pods(client: Client, names: list[str]) -> None:
    """Create on each node a pod that the rollout must evict."""

    async def make(name: str) -> None:
        body = {
            "metadata": {"name": f"work-{name}"},
            "spec": {"nodeName": name, "containers": [{"name": "c", "image": "sample"}]},
        }
        await client.request("POST", "namespaces/default/pods", body=body)

    await gather(make, names)


async def watch(client: Client, unschedulable: list[int]) -> None:
    """Append the current number of unschedulable nodes to `unschedulable`, four times a second."""
    while True:
        nodes = await list_nodes(client)
        unschedulable.append(sum(bool(node["spec"].get("unschedulable")) for node in nodes))
        await asyncio.sleep(0.25)


async def point(context: str, nodes: int, at_once: int) -> Point:
    """Roll out `ALONE` nodes one by one, then all nodes in batches; return the result."""
    names = [f"gpu-{number}" for number in range(1, nodes + 1)]
    failing = set(names[FAILS // 2 :: FAILS])
    again, unschedulable = len(failing), [0]
    async with connect(context) as client:
        alone = []
        for name in names[:ALONE]:
            await pods(client, [name])
            started = time.monotonic()
            await Paused(client, request(context, [name]), set()).roll(host(name))
            alone.append(time.monotonic() - started)
        seconds_alone = statistics.median(alone)
        await pods(client, names)
        rollout = Paused(client, request(context, names), failing)
        looking = asyncio.create_task(watch(client, unschedulable))
        started = time.monotonic()
        hosts = [host(name) for name in names]
        await in_waves([], hosts, at_once, rollout.roll, lambda item: item.target.name)
        seconds = time.monotonic() - started
        looking.cancel()
    if len(rollout.rolled) != nodes or len(rollout.again_on) != again:
        raise RuntimeError(f"{len(rollout.rolled)} of {nodes} nodes, {rollout.again_on} again")
    ratio = seconds / (math.ceil(nodes / at_once) * seconds_alone)
    return Point(seconds, seconds_alone, at_once, max(unschedulable), again, ratio)


def run() -> bool:
    """Run benchmark B8 and print its results; return True if all goals are met."""
    points = {}
    for nodes, at_once in SIZES.items():
        with cluster(nodes) as context:
            points[nodes] = rollout = asyncio.run(point(context, nodes, at_once))
        print(
            f"{nodes} nodes, {at_once} at once: {rollout.seconds:.0f} s, "
            f"one alone {rollout.one:.1f} s, "
            f"{rollout.again} with a second attempt, at most {rollout.most} out of use, "
            f"ratio {rollout.ratio:.2f}",
            flush=True,
        )
    path: Path = write("B8", {"goal": GOAL, "points": points})
    print(f"written: {path.relative_to(ROOT)}")
    worst = max(rollout.ratio for rollout in points.values())
    within = all(rollout.most <= rollout.at_once for rollout in points.values())
    if not within:
        print("missed: more nodes out of use than declared")
    print(f"B8: {worst:.2f} of the batches' least time (goal ≤ {GOAL})")
    return worst <= GOAL and within
