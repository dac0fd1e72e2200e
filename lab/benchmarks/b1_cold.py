"""B1: time to prepare new hosts, compared with other tools that reach the same end state."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_cluster_lab import toolchain
from lab.benchmarks import peer_tools
from lab.benchmarks.fleet import Fleet, fleet, require_watches
from lab.benchmarks.host_stack import EMPTY, IDLE, PROGRAM, HostStack
from lab.benchmarks.measure import BenchmarkError, Sample, exponent, write
from lab.benchmarks.project import ROOT

Row = dict[str, Sample]
"""Sample by tool; processor time excludes the hosts' own processes."""

OVER_BOTH = 1.4
"""Goal for this project's time, divided by the sum of two times, at each size.

The two are the time of OpenSSH with the same steps, and of the engine with as many empty commands.
"""
PYINFRA = 1.0
"""Goal for this project's time, divided by pyinfra's, at the largest size of `WITH_ALL`."""
GROWTH = 1.15
"""Goal for the exponent of this project's time by number of hosts, without network delay."""
WITH_ALL = (20, 50)
"""Numbers of hosts for which all tools are measured; at `MOST` hosts only OpenSSH is measured."""
MOST = 200
ROUND_TRIPS = (0, 20)
ROUNDS = 3
"""Alternating rounds of this project, OpenSSH and the engine alone; slow tools run once."""


def plugin() -> str:
    """Return the origin and version of the measured Pulumi command plugin."""
    tool = toolchain.ensure("pulumi-resource-command")["pulumi-resource-command"]
    return f"command plugin: {tool.origin} {tool.version}"


def brought_up(hosts: Fleet, folder: Path, program: Path) -> Sample:
    """Measure the whole `pulumi up` of a new stack that runs `program` on the hosts."""
    stack = HostStack.make(folder, "bench", hosts.seen, hosts.key, program)
    return stack.timed("up", "--yes", "--skip-preview")


def ours(hosts: Fleet, folder: Path, program: Path = PROGRAM) -> Sample:
    """Measure this project on new hosts; with the program `EMPTY`, measure its minimum time."""
    hosts.fresh()
    return brought_up(hosts, folder, program)


def measure(size: int, round_trip: int) -> Row:
    """Measure all tools with `size` hosts; check that all leave the same end state on the hosts.

    Raises:
        BenchmarkError: A tool leaves another end state than this project.
    """
    programs = peer_tools.environment()
    with fleet(size, round_trip) as hosts, peer_tools.folder() as temporary:
        root = Path(temporary)
        wanted = root / "wanted"
        # This first run fills the page cache and creates the reference files.
        ours(hosts, root / "reference")
        hosts.save(wanted)
        reference = hosts.states()
        if len(reference) != 1:
            raise BenchmarkError(f"hosts differ after our own run: {reference}")
        peers = peer_tools.Peers(hosts, root, wanted, programs)

        def peer(run: str) -> Sample:
            hosts.fresh()
            if run == "OpenSSH":
                sample = peers.openssh(peer_tools.both(hosts), "sh -s")
            else:
                sample = peers.pyinfra()
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
            row["pyinfra"] = peer("pyinfra")
        return row


def median(samples: Sequence[Sample]) -> Sample:
    """Return the medians of the samples' wall times and of their processor times."""
    wall = statistics.median(sample.wall for sample in samples)
    return Sample(wall, statistics.median(sample.cpu for sample in samples))


def failures(rows: Mapping[tuple[int, int], Row]) -> list[str]:
    """Return messages about missed goals.

    The keys of `rows` are the number of hosts and the network round trip in milliseconds.
    """
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
    """Return this project's time, divided by the sum of OpenSSH's and the Pulumi engine's times."""
    return row["ours"].wall / (row["OpenSSH"].wall + row["engine"].wall)


def growth(rows: Mapping[tuple[int, int], Row]) -> float:
    """Return the exponent with which this project's time grows with the number of hosts.

    An exponent of 1 means linear growth.
    """
    return exponent({size: row["ours"].wall for (size, trip), row in rows.items() if trip == 0})


def run() -> bool:
    """Run benchmark B1 and print its results; return True if all goals are met.

    The printed times are wall times; processor times of this machine's programs follow in
    parentheses and exclude processes on the hosts.
    """
    require_watches(MOST)
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
