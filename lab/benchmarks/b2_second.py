"""B2: time of a second `pulumi up` that changes nothing and checks every host for drift."""

from __future__ import annotations

import statistics
from pathlib import Path

from gpu_cluster.hosts.observed.probe import probe
from lab.benchmarks import peer_tools
from lab.benchmarks.b1_cold import ROUND_TRIPS, plugin
from lab.benchmarks.fleet import fleet
from lab.benchmarks.host_stack import HostStack
from lab.benchmarks.measure import BenchmarkError, write
from lab.benchmarks.project import ROOT

GOALS = {"OpenSSH probe": 2.0, "mitogen": 0.3}
"""Goals for this project's time, divided by the other tool's time, at `JUDGED` hosts."""
JUDGED = 20
SIZES = (5, 20, 50)
ROUNDS = 5
Row = dict[str, float]


def measure(size: int, round_trip: int) -> Row:
    """Measure this project, OpenSSH and mitogen on hosts that are already prepared.

    Raises:
        BenchmarkError: A run changed a host.
    """
    programs = peer_tools.environment()
    with fleet(size, round_trip) as hosts, peer_tools.folder() as temporary:
        root = Path(temporary)
        hosts.fresh()
        stack = HostStack.make(root / "stack", "bench", hosts.seen, hosts.key)
        stack.timed("up", "--yes", "--skip-preview")
        hosts.save(root / "wanted")
        before = hosts.states()
        peers = peer_tools.Peers(hosts, root, root / "wanted", programs)
        script = probe()
        arguments = ("up", "--yes", "--skip-preview", "--expect-no-changes")
        pairs = []
        for _ in range(ROUNDS + 1):
            pairs.append((stack.timed(*arguments).wall, peers.openssh(script, "sh -s").wall))
        pairs = pairs[1:]  # The first run of each tool only fills the page cache.
        peers.mitogen()
        mitogen = peers.mitogen().wall
        if hosts.states() != before:
            raise BenchmarkError(f"a second run changed something: {hosts.states()}, not {before}")
        return {
            "ours": statistics.median(a for a, _ in pairs),
            "OpenSSH probe": statistics.median(b for _, b in pairs),
            "mitogen": mitogen,
        }


def run() -> bool:
    """Run benchmark B2 and print its results.

    Return True if all goals are met at `JUDGED` hosts.
    """
    rows: dict[str, Row] = {}
    for size in SIZES:
        for round_trip in ROUND_TRIPS:
            row = measure(size, round_trip)
            rows[f"{size} hosts, {round_trip} ms"] = row
            times = ", ".join(f"{phase} {wall:.2f} s" for phase, wall in row.items())
            print(f"{size} hosts, {round_trip} ms: {times}", flush=True)
    compared = [rows[f"{JUDGED} hosts, {round_trip} ms"] for round_trip in ROUND_TRIPS]
    worst = {peer: max(row["ours"] / row[peer] for row in compared) for peer in GOALS}
    path = write("B2", {"goals": GOALS, "plugin": plugin(), "rows": rows})
    print(f"written: {path.relative_to(ROOT)}")
    missed = [f"{worst[peer]:.2f} × {peer}" for peer in GOALS if worst[peer] > GOALS[peer]]
    if missed:
        print(f"missed: {', '.join(missed)}")
    ratios = [f"{worst[peer]:.2f} × {peer} (goal ≤ {GOALS[peer]})" for peer in GOALS]
    print(f"B2: {JUDGED} hosts, 0 and 20 ms: {', '.join(ratios)}; {plugin()}")
    return not missed
