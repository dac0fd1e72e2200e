"""Says what a long wait waits for: from second 10 on, then every 30 seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds before a wait is worth a line, and between two lines.
FIRST = 10.0
EVERY = 30.0


class Reminder:
    """Decides when a wait is named; knows no clock of its own."""

    def __init__(self) -> None:
        self._next = FIRST

    def due(self, seconds: float) -> bool:
        """Whether a wait that has lasted so long is to be named now."""
        if seconds < self._next:
            return False
        self._next = seconds + EVERY
        return True

    def reset(self) -> None:
        """Another wait begins."""
        self._next = FIRST


@contextmanager
def named(what: Callable[[], tuple[str, float]], say: Callable[[str], None]) -> Iterator[None]:
    """Names a wait while the block runs.

    Args:
        what: what is waited for now, empty for nothing, and since how many seconds.
        say: takes a line.
    """
    ended = threading.Event()

    def remind() -> None:
        reminder = Reminder()
        while not ended.wait(1.0):
            text, seconds = what()
            if not text or seconds < FIRST:
                reminder.reset()
            elif reminder.due(seconds):
                say(f"waiting {seconds:.0f} s for {text}")

    thread = threading.Thread(target=remind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def for_step(text: str, say: Callable[[str], None] = print) -> Iterator[None]:
    """Names one step if it takes long."""
    begun = time.monotonic()
    with named(lambda: (text, time.monotonic() - begun), say):
        yield
