"""B5: how the time of `gpu-cluster up` grows with the number of nodes, at default settings."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass

from lab.benchmarks.measure import Sample, exponent, write
from lab.benchmarks.project import HOSTS, ROOT, Project, running

GOAL = 1.1
PER_HOST = 2
ROUNDS = 5
NODES = (50, 100, 200, 400, 800)


@dataclass(frozen=True)
class Point:
    """Results of `gpu-cluster up` of a new stack with a given number of nodes.

    Attributes:
        samples: Times of the whole command; the cluster and the hosts already run before.
        resources: Number of resources in the engine's state.
        on_hosts: Number of resources that run commands on SSH hosts.
        state: Size of the state file in bytes.
    """

    samples: list[Sample]
    resources: int
    on_hosts: int
    state: int

    @property
    def seconds(self) -> float:
        """Return the median wall time in seconds."""
        return statistics.median(sample.wall for sample in self.samples)


def point(project: Project) -> Point:
    """Create and destroy the stack `ROUNDS` times; return the times of `gpu-cluster up`."""
    samples = []
    for _ in range(ROUNDS):
        samples.append(project.command("up")[0])
        content = project.checkpoint.read_bytes()
        project.pulumi("destroy", "--yes", "--skip-preview")
    resources = json.loads(content)["checkpoint"]["latest"]["resources"]
    on_hosts = [item for item in resources if item["type"] == "command:remote:Command"]
    return Point(samples, len(resources), len(on_hosts), len(content))


def failures(points: dict[int, Point]) -> list[str]:
    """Return messages about missed goals."""
    failed = []
    grown = exponent({nodes: point.seconds for nodes, point in points.items()})
    if grown > GOAL:
        failed.append(f"exponent {grown:.2f}, goal ≤ {GOAL}")
    for nodes, measured in points.items():
        if measured.on_hosts > PER_HOST * HOSTS:
            failed.append(f"{measured.on_hosts} resources on {HOSTS} hosts at {nodes} nodes")
    if len({point.resources for point in points.values()}) > 1:
        failed.append("resources grow with nodes")
    return failed


def run() -> bool:
    """Run benchmark B5 and print its results; return True if all goals are met."""
    points = {}
    for nodes in NODES:
        with running(nodes) as project:
            points[nodes] = measured = point(project)
        print(
            f"{nodes} nodes: {measured.seconds:.1f} s, {measured.resources} resources, "
            f"{measured.on_hosts} of them on {HOSTS} hosts, state {measured.state} bytes",
            flush=True,
        )
    grown = exponent({nodes: point.seconds for nodes, point in points.items()})
    path = write("B5", {"goal": GOAL, "exponent": grown, "hosts": HOSTS, "points": points})
    print(f"written: {path.relative_to(ROOT)}")
    missed = failures(points)
    if missed:
        print(f"missed: {'; '.join(missed)}")
    per_host = max(point.on_hosts for point in points.values()) / HOSTS
    print(
        f"B5: nodes^{grown:.2f} from {NODES[0]} to {NODES[-1]} nodes, {per_host:g} resources a "
        f"host, {points[NODES[-1]].resources} in all at any size (goal ≤ {GOAL}, ≤ {PER_HOST})"
    )
    return not missed
