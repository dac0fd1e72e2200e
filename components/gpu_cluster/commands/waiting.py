"""Messages about a long wait: after 10 seconds, then every 30 seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Seconds until the first message about a wait, and seconds between two messages.
FIRST = 10.0
EVERY = 30.0


class Reminder:
    """Schedule of the messages about a wait; the caller passes the time."""

    def __init__(self) -> None:
        """Start with the schedule of a new wait."""
        self._next = FIRST

    def due(self, seconds: float) -> bool:
        """Return whether a message is due for a wait that has lasted this many seconds."""
        if seconds < self._next:
            return False
        self._next = seconds + EVERY
        return True

    def reset(self) -> None:
        """Start the schedule again, because another wait starts."""
        self._next = FIRST


@contextmanager
def named(
    describe_wait: Callable[[], tuple[str, float]], say: Callable[[str], None]
) -> Iterator[None]:
    """Print messages about a long wait while the block runs.

    Args:
        describe_wait: Function that returns what the program waits for, and for how many seconds
            already. An empty text means that it does not wait.
        say: Function that prints a line.
    """
    ended = threading.Event()

    def remind() -> None:
        reminder = Reminder()
        while not ended.wait(1.0):
            text, seconds = describe_wait()
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
    """Print messages while the block runs, if it takes long."""
    begun = time.monotonic()
    with named(lambda: (text, time.monotonic() - begun), say):
        yield
