"""B11: the time of `gpu-cluster` before its first word, divided by that of an empty program.

One round runs each once: an empty program, the help, the help of each verb, the refusal of a wrong
stack. The processor time is compared, because the wall time of such short programs is that of the
machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from gpu_cluster.commands.files import ROOT
from gpu_cluster.commands.verbs import VERBS
from lab.benchmarks.measure import BenchmarkError, processor_time, ratio, write

GOAL = 4.0
ROUNDS = 15
EMPTY, HELP, WRONG = "python -c pass", "gpu-cluster --help", "gpu-cluster up --stack prd"
_MODULE = ("-m", "gpu_cluster.commands")
COMMANDS = {
    EMPTY: ("-c", "pass"),
    HELP: (*_MODULE, "--help"),
    WRONG: (*_MODULE, "up", "--stack", "prd"),
    **{f"gpu-cluster {verb.name} --help": (*_MODULE, verb.name, "--help") for verb in VERBS},
}


def processor_seconds(name: str, arguments: Sequence[str]) -> float:
    """Run Python with arguments, and return its processor time in seconds.

    Raises:
        BenchmarkError: The command did not end as it should.
    """
    before = processor_time()
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != (name == WRONG):
        raise BenchmarkError(f"{name}: exit code {done.returncode}: {done.stderr.decode()}")
    return processor_time() - before


def run() -> bool:
    """Measure and print the ratios; return whether each of them is at most `GOAL`.

    Of the verbs' helps only the slowest is printed.
    """
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            times[name].append(processor_seconds(name, arguments))
    ratios = {name: ratio(each, times[EMPTY]) for name, each in times.items() if name != EMPTY}
    slowest = max(ratios.keys() - {HELP, WRONG}, key=ratios.__getitem__)
    for name in (HELP, slowest, WRONG):
        milliseconds = 1000 * statistics.median(times[name])
        of_verbs = f", the slowest of {len(VERBS)} verbs" if name == slowest else ""
        print(
            f"B11: {name}{of_verbs}: {milliseconds:.0f} ms, {ratios[name]:.2f} × {EMPTY} "
            f"(goal ≤ {GOAL})"
        )
    met = all(found <= GOAL for found in ratios.values())
    write("B11", {"goal": GOAL, "ratios": ratios, "seconds": times, "met": met})
    return met
