"""B1: fresh hosts to prepared ones, the same end state by each peer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import toolchain
from lab.benchmarks import peer_tools
from lab.benchmarks.fleet import Fleet, fleet
from lab.benchmarks.host_stack import EMPTY, IDLE, PROGRAM, HostStack
from lab.benchmarks.measure import BenchmarkError, Sample, exponent, write
from lab.benchmarks.project import ROOT

Row = dict[str, Sample]
"""Of each peer, the processor time without the hosts' own."""

OVER_BOTH = 1.4
"""Our time over that of OpenSSH with the same steps and of the engine with as many commands that do
nothing, together, at each size."""
PYINFRA = 1.0
"""Our time over pyinfra's, at `WITH_ALL`'s largest."""
GROWTH = 1.15
"""Exponent of our time by hosts, without a round trip."""
WITH_ALL = (20, 50)
"""Hosts that all peers bring up; at `MOST` only OpenSSH does."""
MOST = 200
ROUND_TRIPS = (0, 20)
ROUNDS = 3
"""Of ours, of OpenSSH and of the engine alone, in turn; the slow peers run once."""


def plugin() -> str:
    """Which command plugin does our part."""
    tool = toolchain.ensure("pulumi-resource-command")["pulumi-resource-command"]
    return f"command plugin: {tool.origin} {tool.version}"


def brought_up(hosts: Fleet, folder: Path, program: Path) -> Sample:
    """A new stack's whole `pulumi up`."""
    stack = HostStack.make(folder, "bench", hosts.seen, hosts.key, program)
    return stack.timed("up", "--yes", "--skip-preview")


def ours(hosts: Fleet, folder: Path, program: Path = PROGRAM) -> Sample:
    """Our part on fresh hosts; with `EMPTY` its floor: no script of ours could be faster."""
    hosts.fresh()
    return brought_up(hosts, folder, program)


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

        def peer(run: str) -> Sample:
            hosts.fresh()
            if run == "OpenSSH":
                sample = peers.openssh(peer_tools.both(hosts), "sh -s")
            elif run == "pyinfra":
                sample = peers.pyinfra()
            else:
                sample = peers.ansible("mitogen_linear" if run == "mitogen" else "linear")
            if (states := hosts.states()) != reference:
                raise BenchmarkError(f"{run} leaves another state: {states}, not {reference}")
            return sample

        rounds: list[Row] = [
            {
                "ours": ours(hosts, root / f"ours-{number}"),
                "OpenSSH": peer("OpenSSH"),
                "engine": brought_up(hosts, root / f"idle-{number}", IDLE),
            }
            for number in range(ROUNDS)
        ]
        row = {name: median([each[name] for each in rounds]) for name in rounds[0]}
        if size in WITH_ALL:
            row["floor"] = ours(hosts, root / "floor", EMPTY)
            row |= {run: peer(run) for run in ("mitogen", "pyinfra", "ansible-core")}
        return row


def median(samples: Sequence[Sample]) -> Sample:
    """Of the clock and of the processor, each for itself."""
    wall = statistics.median(sample.wall for sample in samples)
    return Sample(wall, statistics.median(sample.cpu for sample in samples))


def failures(rows: Mapping[tuple[int, int], Row]) -> list[str]:
    """Which goals are missed; ``rows`` by hosts and round trip."""
    missed = []
    for (size, round_trip), row in rows.items():
        at = f"{size} hosts, {round_trip} ms"
        if (over := over_both(row)) > OVER_BOTH:
            missed.append(f"{at}: {over:.2f} × (OpenSSH + engine), goal ≤ {OVER_BOTH}")
        if size == max(WITH_ALL) and (ratio := row["ours"].wall / row["pyinfra"].wall) > PYINFRA:
            missed.append(f"{at}: {ratio:.2f} × pyinfra, goal ≤ {PYINFRA}")
    if (grown := growth(rows)) > GROWTH:
        missed.append(f"hosts^{grown:.2f}, goal ≤ {GROWTH}")
    return missed


def over_both(row: Row) -> float:
    """Our time over that of OpenSSH and of the engine together."""
    return row["ours"].wall / (row["OpenSSH"].wall + row["engine"].wall)


def growth(rows: Mapping[tuple[int, int], Row]) -> float:
    """The exponent of our time without a round trip."""
    return exponent({size: row["ours"].wall for (size, trip), row in rows.items() if trip == 0})


def run() -> bool:
    """Measures and prints; whether all goals are met.

    Each peer's time by the clock, and in brackets what this machine's programs took of processors,
    without the hosts' own.
    """
    rows: dict[tuple[int, int], Row] = {}
    sizes = [(size, trip) for size in WITH_ALL for trip in ROUND_TRIPS]
    for size, round_trip in [*sizes, (MOST, 0)]:
        row = rows[size, round_trip] = measure(size, round_trip)
        times = ", ".join(
            f"{name} {each.wall:.2f} s ({each.cpu:.2f})" for name, each in row.items()
        )
        print(f"{size} hosts, {round_trip} ms: {times}", flush=True)
    named = {f"{size} hosts, {trip} ms": row for (size, trip), row in rows.items()}
    path = write("B1", {"plugin": plugin(), "growth": growth(rows), "rows": named})
    print(f"written: {path.relative_to(ROOT)}")
    missed = failures(rows)
    if missed:
        print(f"missed: {'; '.join(missed)}")
    worst = max(map(over_both, rows.values()))
    print(
        f"B1: {worst:.2f} × (OpenSSH + engine) at the worst (goal ≤ {OVER_BOTH}), hosts^"
        f"{growth(rows):.2f} (goal ≤ {GROWTH}); {plugin()}"
    )
    return not missed
