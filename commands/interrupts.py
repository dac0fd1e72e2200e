"""Ctrl-C while the engine runs: the engine gets it too, and ends in good order by itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Interrupts:
    """Attributes: count: interrupts that came so far."""

    count: int = 0


@contextmanager
def left_to_the_engine() -> Iterator[Interrupts]:
    """Wait for the engine after the first interrupt, which its process group gets too.

    The engine then ends what it has begun and writes its state. At the second interrupt it ends
    immediately (pulumi v3.250.0, sdk/go/common/util/cancel), and so does this process.

    Raises:
        KeyboardInterrupt: at the second interrupt, or at the end after one.
    """
    seen = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def note(number: int, frame: FrameType | None) -> None:
        seen.count += 1
        if seen.count > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    except Exception:
        if not seen.count:
            raise
    finally:
        signal.signal(signal.SIGINT, before)
    if seen.count:
        raise KeyboardInterrupt
