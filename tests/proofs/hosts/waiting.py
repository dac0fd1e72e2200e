"""Wait until a condition on a simulated host is true."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT = 240
"""Seconds that one run of Pulumi may take; the limits of the steps are lower."""


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
