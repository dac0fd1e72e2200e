"""B1: fresh hosts to prepared ones, the same end state by each peer."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import toolchain
from lab.benchmarks import peer_tools
from lab.benchmarks.fleet import Fleet, fleet
from lab.benchmarks.host_stack import HostStack
from lab.benchmarks.measure import BenchmarkError, write
from lab.benchmarks.project import ROOT

GOALS = {"OpenSSH": 1.3, "ansible-core": 0.03, "mitogen": 0.3, "pyinfra": 0.1}
"""Our time over the peer's, at `JUDGED` hosts."""
JUDGED = 20
SIZES = (5, 20, 50)
ROUND_TRIPS = (0, 20)
ROUNDS = 3
"""Of ours and of OpenSSH, in turn; the slow peers run once."""

Row = dict[str, float]


def plugin() -> str:
    """Which command plugin does our part."""
    tool = toolchain.ensure("pulumi-resource-command")["pulumi-resource-command"]
    return f"command plugin: {tool.origin} {tool.version}"


def ours(hosts: Fleet, folder: Path) -> float:
    """A new stack's whole `pulumi up`."""
    hosts.fresh()
    stack = HostStack.make(folder, "bench", hosts.seen, hosts.key)
    return stack.timed("up", "--yes", "--skip-preview")[0]


def measure(size: int, round_trip: int) -> Row:
    """Seconds of each; every end state is compared with ours.

    Raises:
        BenchmarkError: a peer leaves another state.
    """
    programs = peer_tools.environment()
    with fleet(size, round_trip) as hosts, peer_tools.folder() as temporary:
        root = Path(temporary)
        wanted = root / "wanted"
        ours(hosts, root / "reference")  # fills the page cache, gives the files
        hosts.save(wanted)
        reference = hosts.states()
        if len(reference) != 1:
            raise BenchmarkError(f"hosts differ after our own run: {reference}")
        peers = peer_tools.Peers(hosts, root, wanted, programs)

        def peer(run: str) -> float:
            hosts.fresh()
            if run == "OpenSSH":
                wall = peers.openssh(peer_tools.both(), "sh -s")
            elif run == "pyinfra":
                wall = peers.pyinfra()
            else:
                wall = peers.ansible("mitogen_linear" if run == "mitogen" else "linear")
            if (states := hosts.states()) != reference:
                raise BenchmarkError(f"{run} leaves another state: {states}, not {reference}")
            return wall

        pairs = [(ours(hosts, root / str(number)), peer("OpenSSH")) for number in range(ROUNDS)]
        row = {
            "ours": statistics.median(a for a, _ in pairs),
            "OpenSSH": statistics.median(b for _, b in pairs),
        }
        return row | {run: peer(run) for run in ("mitogen", "pyinfra", "ansible-core")}


def judged(
    name: str, goals: dict[str, float], measure: Callable[[int, int], Row], digits: int
) -> bool:
    """Measures fleets of all `SIZES` and `ROUND_TRIPS` and prints; whether all goals are met.

    Args:
        name: of the benchmark.
        goals: our time over the peer's at `JUDGED` hosts, by peer.
        measure: seconds of each by hosts and round trip in ms.
        digits: decimals of the ratios.
    """
    rows: dict[str, Row] = {}
    for size in SIZES:
        for round_trip in ROUND_TRIPS:
            row = measure(size, round_trip)
            rows[f"{size} hosts, {round_trip} ms"] = row
            times = ", ".join(f"{phase} {wall:.2f} s" for phase, wall in row.items())
            print(f"{size} hosts, {round_trip} ms: {times}", flush=True)
    compared = [rows[f"{JUDGED} hosts, {round_trip} ms"] for round_trip in ROUND_TRIPS]
    worst = {peer: max(row["ours"] / row[peer] for row in compared) for peer in goals}
    path = write(name, {"goals": goals, "plugin": plugin(), "rows": rows})
    print(f"written: {path.relative_to(ROOT)}")
    missed = [f"{worst[peer]:.{digits}f} × {peer}" for peer in goals if worst[peer] > goals[peer]]
    if missed:
        print(f"missed: {', '.join(missed)}")
    ratios = [f"{worst[peer]:.{digits}f} × {peer} (goal ≤ {goals[peer]})" for peer in goals]
    print(f"{name}: {JUDGED} hosts, 0 and 20 ms: {', '.join(ratios)}; {plugin()}")
    return not missed


def run() -> bool:
    """Measures and prints; whether all goals are met at `JUDGED` hosts."""
    return judged("B1", GOALS, measure, digits=3)
