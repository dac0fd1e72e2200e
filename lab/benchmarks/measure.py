"""Measure the time of commands, and compute ratios and growth rates."""

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
"""Folder for the JSON result of each run; ignored by git."""

LIMIT = 600
"""Timeout in seconds for one command."""


class BenchmarkError(Exception):
    """A measurement failed; the message has the failed command and its output."""


@dataclass(frozen=True)
class Sample:
    """Wall time and processor time of one run of a command, in seconds.

    The processor time includes all child processes.
    """

    wall: float
    cpu: float


def timed(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> tuple[Sample, str]:
    """Run a command that must succeed; return its times and its output.

    Raises:
        BenchmarkError: The exit code is not 0, or the command did not end within `LIMIT` seconds.
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
    """Return the processor time in seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    """Return the median ratio of this project's times (`ours`) to another tool's times (`peer`).

    The n-th times of both, which were measured one after the other, are compared with each other.
    """
    return statistics.median(a / b for a, b in zip(ours, peer, strict=True))


def exponent(points: Mapping[int, float]) -> float:
    """Return the exponent `e` that fits `time = c * nodes ** e` best.

    The fit is a least-squares regression of log(time) against log(nodes).
    """
    xs = [math.log(nodes) for nodes in points]
    ys = [math.log(seconds) for seconds in points.values()]
    return statistics.linear_regression(xs, ys).slope


def write(name: str, result: Mapping[str, Any]) -> Path:
    """Write a benchmark's result with facts about the machine as a JSON file; return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    machine = {"cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    content = {"benchmark": name, "machine": machine, **result}
    path.write_text(json.dumps(content, indent=1, default=asdict) + "\n")
    return path
