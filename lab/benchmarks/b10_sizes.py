"""B10: how the processor time of judging a stack grows with its hosts and with its pools.

It judges made-up facts of hosts in one process, without a cluster, an engine or a host: load the
stack file, resolve it, compare, and write the change document. Each number of hosts is judged for a
first run, for an edit of all hosts, and without a change.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_cluster.change.text import lines
from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.difference import desired_phases
from gpu_cluster.hosts.script import Declaration
from gpu_cluster.inspection.document import ChangeCollector
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.rollout.pending import disruptive_settings
from lab.benchmarks.measure import exponent, write

GOAL = 1.1
"""Largest exponent: with ten times the hosts, at most 12.6 times the processor time."""
EDIT_GOAL = 4.0
"""Most times that loading may be multiplied by judging an edit of all of 1,000 hosts."""
HOSTS = (100, 500, 1000, 5000)
POOLS = (10, 50, 200)
ROUNDS = 3
PER_POOL = 10
"""Number of nodes of each pool where pools grow."""
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKvDyV1cmEiXz9dP0UXFkyBKtNBYLVgEdSOvVr4fsW1F"

Document = dict[str, Any]


def stack_of_hosts(number: int, driver: str) -> Document:
    """Return a stack file's content with one pool, each node of which is a declared host."""
    hosts = [
        {"name": f"gpu-{n}", "address": f"10.0.{n // 250}.{n % 250 + 1}", "hostKey": HOST_KEY}
        for n in range(1, number + 1)
    ]
    return {
        "version": "v1",
        "kubernetes": {"context": "benchmark"},
        "pools": [{"name": "a", "nodes": [f"gpu-[1-{number}]"], "gpusPerNode": 8}],
        "hosts": hosts,
        "platform": "device-plugin",
        "driver": {"source": "package", "version": driver},
    }


def stack_of_pools(number: int) -> Document:
    """Return a stack file's content with pools of `PER_POOL` hosts each."""
    document = stack_of_hosts(number * PER_POOL, "570.172.08")
    pools = [
        {
            "name": f"pool-{n}",
            "nodes": [f"gpu-[{n * PER_POOL + 1}-{(n + 1) * PER_POOL}]"],
            "gpusPerNode": 8,
        }
        for n in range(number)
    ]
    return {**document, "pools": pools}


@contextlib.contextmanager
def stack_file(document: Document) -> Iterator[Path]:
    """Write a stack file for the time of a measurement."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Pulumi.benchmark.yaml"
        path.write_text(yaml.safe_dump({"config": {"gpu-cluster:cluster": document}}))
        yield path


def applied_facts(desired: Desired) -> dict[str, HostFacts]:
    """Return the facts of hosts on which the whole configuration is applied."""
    facts = {}
    for host in desired.hosts:
        declared: Mapping[str, Declaration] = {
            phase: declaration
            for phase, declaration in desired_phases(host, None).items()
            if declaration is not None
        }
        facts[host.name] = HostFacts(
            applied=tuple(declared),
            settings={phase: each.settings for phase, each in declared.items()},
            steps={
                phase: tuple(bundle.line for bundle in each.bundles)
                for phase, each in declared.items()
            },
            disrupts=disruptive_settings(host),
        )
    return facts


def judge(path: Path, facts: Mapping[str, HostFacts]) -> list[str]:
    """Return the preview's lines about a stack file whose hosts report these facts."""
    desired = resolve(load_stack_file(path), "benchmark")
    collector = ChangeCollector(
        hosts=desired.hosts,
        nodes=desired.nodes,
        platform=desired.platform,
        validation=desired.validation,
        rollout=desired.rollout,
        maintenance=desired.maintenance,
        inspection=judged(desired, Seen(hosts=facts)),
        unsupported=desired.unsupported,
    )
    return lines(collector.change("gpu-cluster"))


def seconds_of(work: Callable[[], object]) -> float:
    """Return the least processor time of the work, in seconds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def measure_hosts(number: int) -> dict[str, float]:
    """Return the seconds for a number of hosts: loading, and judging each kind of run."""
    with stack_file(stack_of_hosts(number, "570.172.08")) as declared:
        desired = resolve(load_stack_file(declared), "benchmark")
        facts = applied_facts(desired)
        new = {host.name: HostFacts() for host in desired.hosts}
        seconds = {
            "load": seconds_of(lambda: load_stack_file(declared)),
            "first run": seconds_of(lambda: judge(declared, new)),
            "no change": seconds_of(lambda: judge(declared, facts)),
        }
    with stack_file(stack_of_hosts(number, "580.95.05")) as edited:
        return {**seconds, "edit": seconds_of(lambda: judge(edited, facts))}


def measure_pools(number: int) -> dict[str, float]:
    """Return the seconds to load and resolve a number of pools."""
    with stack_file(stack_of_pools(number)) as path:
        return {"pools": seconds_of(lambda: resolve(load_stack_file(path), "benchmark"))}


def run() -> bool:
    """Run benchmark B10 and print its results; return True if all goals are met."""
    hosts = {number: measure_hosts(number) for number in HOSTS}
    pools = {number: measure_pools(number) for number in POOLS}
    for noun, points in (("hosts", hosts), ("pools", pools)):
        for number, seconds in points.items():
            parts = ", ".join(f"{name} {each:.2f} s" for name, each in seconds.items())
            print(f"{number} {noun}: {parts}", flush=True)
    growths = {
        name: exponent({number: seconds[name] for number, seconds in points.items()})
        for points in (hosts, pools)
        for name in next(iter(points.values()))
    }
    edit = hosts[1000]["edit"] / hosts[1000]["load"]
    write("B10", {"goal": GOAL, "growths": growths, "edit": edit, "hosts": hosts, "pools": pools})
    parts = ", ".join(f"{name} {growth:.2f}" for name, growth in growths.items())
    print(
        f"B10: {sum(growth <= GOAL for growth in growths.values())} of {len(growths)} growths at "
        f"most {GOAL} ({parts}), an edit of 1,000 hosts {edit:.1f} × their loading "
        f"(goal ≤ {EDIT_GOAL:g})"
    )
    return all(growth <= GOAL for growth in growths.values()) and edit <= EDIT_GOAL
