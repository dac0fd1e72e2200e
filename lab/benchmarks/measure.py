"""Running commands for their time, and what is made of the times. Pure but for `timed`."""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
"""Where the JSON of each run goes; ignored by git."""

LIMIT = 600
"""Seconds for any one command."""


class BenchmarkError(Exception):
    """A run that measured nothing: the text says which command failed and what it printed."""


@dataclass(frozen=True)
class Sample:
    """One run of a command: seconds by the clock, and of processor time with its children."""

    wall: float
    cpu: float


def timed(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> tuple[Sample, str]:
    """Runs a command that must succeed; gives back its time and its output.

    Raises:
        BenchmarkError: exit code other than 0, or no end within `LIMIT`.
    """
    before, started = processor_time(), time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"{' '.join(command)}: no end within {LIMIT} s") from error
    sample = Sample(time.monotonic() - started, processor_time() - before)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-25:])
        raise BenchmarkError(f"{' '.join(command)}: exit code {done.returncode}\n{tail}")
    return sample, done.stdout


def processor_time() -> float:
    """Seconds that the processes took which this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    """The median of the ratios of runs that were made one after the other."""
    return statistics.median(a / b for a, b in zip(ours, peer, strict=True))


def exponent(points: Mapping[int, float]) -> float:
    """The ``e`` of ``time = c * nodes ** e`` that fits best: least squares on both logarithms."""
    xs = [math.log(nodes) for nodes in points]
    ys = [math.log(seconds) for seconds in points.values()]
    return statistics.linear_regression(xs, ys).slope


def write(name: str, result: Mapping[str, Any]) -> Path:
    """Writes a result as JSON, with the machine that it was taken on."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    machine = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    content = {"benchmark": name, "machine": machine, **result}
    path.write_text(json.dumps(content, indent=1, default=asdict) + "\n")
    return path
