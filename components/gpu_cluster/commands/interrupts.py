"""Handling of Ctrl-C while the engine runs.

The terminal sends the interrupt to the engine too, and the engine then ends its operations cleanly.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Interrupts:
    """Counter of the interrupts (SIGINT) received during an engine run.

    Attributes:
        count: Number of interrupts so far.
    """

    count: int = 0


@contextmanager
def left_to_the_engine() -> Iterator[Interrupts]:
    """Wait for the engine after the first interrupt, which the engine's process also receives.

    The engine then finishes the operations that are running and writes its state. At the second
    interrupt the engine ends immediately (pulumi v3.250.0, sdk/go/common/util/cancel), and so does
    this process.

    Raises:
        KeyboardInterrupt: At the second interrupt, or when the block ends after one interrupt.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.count += 1
        if interrupts.count > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupts
    except Exception:
        if not interrupts.count:
            raise
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts.count:
        raise KeyboardInterrupt
