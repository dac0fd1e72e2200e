"""``python -m lab.benchmarks [B1|B2|B4|B5|B6|B8]``: exit code 1 when a goal is missed."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from types import FrameType

from lab.benchmarks import b1_cold, b2_second, b8_rollout, growth, overhead, rules
from lab.benchmarks.measure import BenchmarkError

ALL = {
    "B1": b1_cold.run,
    "B2": b2_second.run,
    "B4": overhead.run,
    "B5": growth.run,
    "B6": rules.run,
    "B8": b8_rollout.run,
}


def _stop(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def main() -> None:
    """Runs all benchmarks, or the one that is named."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("only", nargs="?", choices=ALL, help="one benchmark; all without it")
    only = parser.parse_args().only
    # The peers' modules were compiled at install, ours are at their first run: let them be kept.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGTERM, _stop)  # so that clusters are stopped on the way out
    try:
        met = [run() for name, run in ALL.items() if only in (None, name)]
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
