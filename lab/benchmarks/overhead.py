"""B4: extra time of a preview that changes nothing, compared with a plain Pulumi program.

The extra time is caused by this project's configuration, inspection and rules.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final

from lab.benchmarks import peer
from lab.benchmarks.measure import Sample, ratio, write
from lab.benchmarks.project import ROOT, Project, pulumi, running

ROUNDS = 5
NODES = (10, 100, 500)
PREVIEW = ("preview", "--suppress-outputs")
UP = ("up", "--yes", "--skip-preview", "--suppress-outputs")
PEERS: Final[Mapping[str, tuple[str, ...]]] = {
    "preview --refresh": (*PREVIEW, "--refresh"),
    "plain preview": (*PREVIEW, "--expect-no-changes"),
}
"""Previews of the plain program: with its only way to detect drift, and without any."""
GOALS: Final[Mapping[str, float]] = {"preview --refresh": 1.6}
"""Goal: maximum time of this project's preview, divided by the plain program's time.

The plain preview sees no drift, so it has no goal; its figure shows the cost of the inspection.
"""


def compare(project: Project) -> dict[str, list[Sample]]:
    """Measure previews of this project and of the programs in `PEERS` by turns.

    Returns:
        Measurements by program; this project is `ours`.
    """
    project.pulumi(*UP)
    folder, environment = peer.make(project)
    samples: dict[str, list[Sample]] = {"ours": [], **{name: [] for name in PEERS}}
    for _ in range(ROUNDS + 1):
        samples["ours"].append(project.pulumi(*PREVIEW, "--expect-no-changes")[0])
        for name, arguments in PEERS.items():
            samples[name].append(pulumi(folder, project.stack, environment, *arguments)[0])
    # Drop the first sample of each series, because that run only filled the page cache.
    return {name: series[1:] for name, series in samples.items()}


def ratios(samples: Mapping[str, list[Sample]]) -> dict[str, float]:
    """Return this project's preview time, divided by each preview time of the plain program."""
    ours = [sample.wall for sample in samples["ours"]]
    return {name: ratio(ours, [sample.wall for sample in samples[name]]) for name in PEERS}


def run() -> bool:
    """Run benchmark B4 and print its results; return True if all goals are met."""
    samples, result = {}, {}
    for nodes in NODES:
        with running(nodes) as project:
            samples[nodes] = compare(project)
        result[nodes] = ratios(samples[nodes])
        for name, series in samples[nodes].items():
            wall = statistics.median(sample.wall for sample in series)
            cpu = statistics.median(sample.cpu for sample in series)
            print(f"{nodes} nodes, {name}: {wall:.2f} s, processor time {cpu:.2f} s", flush=True)
    path = write("B4", {"goals": dict(GOALS), "ratios": result, "samples": samples})
    print(f"written: {path.relative_to(ROOT)}")
    for name in reversed(tuple(PEERS)):
        figures = ", ".join(f"{result[nodes][name]:.2f}" for nodes in NODES)
        goal = f" (goal ≤ {GOALS[name]})" if name in GOALS else ""
        print(f"B4: {figures} × bare {name} at {', '.join(map(str, NODES))} nodes{goal}")
    return all(result[nodes][name] <= goal for nodes in NODES for name, goal in GOALS.items())
