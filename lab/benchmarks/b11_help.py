"""B11: the time of `gpu-cluster` before its first word, divided by that of an empty program.

One round runs each once: an empty program, the help, a verb's help, the refusal of a wrong stack.
The processor time is compared, because the wall time of such short programs is the machine's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from gpu_cluster.commands.files import ROOT
from lab.benchmarks.measure import processor_time, ratio, write

GOAL = 4.0
ROUNDS = 30
EMPTY = "python -c pass"
COMMANDS = {
    EMPTY: ("-c", "pass"),
    "gpu-cluster --help": ("-m", "gpu_cluster.commands", "--help"),
    "gpu-cluster up --help": ("-m", "gpu_cluster.commands", "up", "--help"),
    "gpu-cluster up --stack prd": ("-m", "gpu_cluster.commands", "up", "--stack", "prd"),
}


def processor_seconds(arguments: Sequence[str]) -> float:
    """Run Python with arguments, and return its processor time in seconds."""
    before = processor_time()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=False)
    return processor_time() - before


def run() -> bool:
    """Measure and print the ratios; return whether each of them is at most `GOAL`."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, arguments in COMMANDS.items():
            times[name].append(processor_seconds(arguments))
    ratios = {name: ratio(each, times[EMPTY]) for name, each in times.items() if name != EMPTY}
    for name, found in ratios.items():
        milliseconds = 1000 * statistics.median(times[name])
        print(f"B11: {name}: {milliseconds:.0f} ms, {found:.2f} × {EMPTY} (goal ≤ {GOAL})")
    met = all(found <= GOAL for found in ratios.values())
    write("B11", {"goal": GOAL, "ratios": ratios, "seconds": times, "met": met})
    return met
