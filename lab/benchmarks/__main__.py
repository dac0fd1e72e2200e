"""Run the benchmarks B1, B2, B4 to B6 and B8 to B14; exit with 1 if one misses its goal."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType

from lab.benchmarks import (
    b1_cold,
    b2_second,
    b8_rollout,
    b9_reading,
    b10_sizes,
    b11_help,
    b12_pools,
    b13_sizes,
    b14_kustomizations,
    growth,
    overhead,
    rules,
    scale,
)
from lab.benchmarks.measure import BenchmarkError

ALL = {
    "B1": b1_cold.run,
    "B2": b2_second.run,
    "B4": overhead.run,
    "B5": growth.run,
    "B6": rules.run,
    "B8": b8_rollout.run,
    "B9": b9_reading.run,
    "B10": b10_sizes.run,
    "B11": b11_help.run,
    "B12": b12_pools.run,
    "B13": b13_sizes.run,
    "B14": b14_kustomizations.run,
}
PARTS = {"scale": scale.run}
"""Runs of several benchmarks with one last line."""


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Run all benchmarks, or only the benchmark named on the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "only", nargs="?", choices=[*ALL, *PARTS], help="one benchmark; all without it"
    )
    only = parser.parse_args().only
    # Let Python write compiled modules to disk. The compared tools were compiled when they were
    # installed; this project is compiled at its first run.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Exit normally, so that the embedded clusters are stopped.
    signal.signal(signal.SIGTERM, _stop)
    try:
        chosen = ALL if only is None else {only: {**ALL, **PARTS}[only]}
        met = [run() for run in chosen.values()]
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
