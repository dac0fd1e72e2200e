"""B2: a second run that changes nothing, with the drift probe on every host."""

from __future__ import annotations

import statistics
from pathlib import Path

from components.hosts.probe import probe
from lab.benchmarks import peer_tools
from lab.benchmarks.b1_cold import Row, judged
from lab.benchmarks.fleet import fleet
from lab.benchmarks.host_stack import HostStack
from lab.benchmarks.measure import BenchmarkError

GOALS = {"OpenSSH probe": 1.5, "mitogen": 0.2}
"""Our time over the peer's, at `JUDGED` hosts."""
ROUNDS = 5


def measure(size: int, round_trip: int) -> Row:
    """Seconds of each, on hosts that are in their end state.

    Raises:
        BenchmarkError: a run changed something.
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
            wall, _ = stack.timed(*arguments)
            pairs.append((wall, peers.openssh(script, "sh -s")))
        pairs = pairs[1:]  # the first of each fills the page cache
        peers.ansible("mitogen_linear")
        mitogen = peers.ansible("mitogen_linear")
        if hosts.states() != before:
            raise BenchmarkError(f"a second run changed something: {hosts.states()}, not {before}")
        return {
            "ours": statistics.median(a for a, _ in pairs),
            "OpenSSH probe": statistics.median(b for _, b in pairs),
            "mitogen": mitogen,
        }


def run() -> bool:
    """Measures and prints; whether all goals are met at `JUDGED` hosts."""
    return judged("B2", GOALS, measure, digits=2)
