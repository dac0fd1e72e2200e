"""Show the progress of long steps: a bar on a terminal, otherwise a line every 30 seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# Seconds between two lines about a step if the output is not a terminal.
LINE_EVERY = 30.0


def clock(seconds: float) -> str:
    """Return a duration in seconds as text: 75 becomes ``1 min 15 s``."""
    minutes, seconds_left = divmod(round(seconds), 60)
    return f"{minutes} min {seconds_left} s" if minutes else f"{seconds_left} s"


def left(elapsed: float, typical: float, fraction: float) -> float:
    """Estimate how many seconds a step still takes.

    At the start the estimate is based on the step's typical duration; the more of the step is done,
    the more it is based on the speed so far.

    Args:
        elapsed: Seconds since the step started.
        typical: Typical duration of the step in seconds.
        fraction: The part of the step that is done, from 0 to 1.
    """
    fraction = min(max(fraction, 0.0), 1.0)
    if fraction == 0.0:
        return max(typical - elapsed, 0.0)
    by_progress = elapsed * (1.0 - fraction) / fraction
    planned = max(typical - elapsed, 0.0)
    return fraction * by_progress + (1.0 - fraction) * planned


@dataclass
class Steps:
    """Shows the progress of steps on standard error; standard output is only for results.

    The library `rich` is imported when the first step starts, so a run without steps doesn't need
    it.

    Attributes:
        chosen: The console to use instead of standard error.
        clock: Function that returns a time in seconds; tests replace it.
    """

    chosen: Console | None = None
    clock: Callable[[], float] = time.monotonic

    @cached_property
    def console(self) -> Console:
        """Return the console to which progress is written; the default is standard error."""
        from rich.console import Console

        return self.chosen or Console(stderr=True, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print one line to the console."""
        self.console.print(f"toolchain: {text}", markup=False)

    @contextlib.contextmanager
    def step(
        self, title: str, typical: float, total: int, unit: str
    ) -> Iterator[Callable[[int], None]]:
        """Show one step; yield a function to call with the number of units done so far.

        Args:
            title: Description of the step.
            typical: Typical duration in seconds; 0 if unknown.
            total: Number of units of the step.
            unit: Name of the unit, for example ``packages``.
        """
        start = self.clock()
        if self.console.is_terminal:
            with self._bar(title, typical, total, unit) as advance:
                yield advance
        else:
            self.say(f"{title}: about {clock(typical)}" if typical else title)
            yield self._lines(title, typical, total, unit, start)
        self.say(f"{title}: {clock(self.clock() - start)}")

    def _lines(
        self, title: str, typical: float, total: int, unit: str, start: float
    ) -> Callable[[int], None]:
        next_line = start + LINE_EVERY

        def advance(done: int) -> None:
            nonlocal next_line
            now = self.clock()
            if now < next_line:
                return
            next_line = now + LINE_EVERY
            seconds_left = left(now - start, typical, done / total if total else 0.0)
            self.say(
                f"{title}: {done:,} of {total:,} {unit}, {clock(now - start)}, "
                f"about {clock(seconds_left)} left"
            )

        return advance

    @contextlib.contextmanager
    def _bar(
        self, title: str, typical: float, total: int, unit: str
    ) -> Iterator[Callable[[int], None]]:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,} {task.fields[unit]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rest]}"),
            console=self.console,
            transient=True,
        ) as bar:
            task = bar.add_task(title, total=total, unit=unit, rest=f"about {clock(typical)}")
            start = self.clock()

            def advance(done: int) -> None:
                seconds_left = left(self.clock() - start, typical, done / total if total else 0.0)
                bar.update(
                    task, completed=min(done, total), rest=f"about {clock(seconds_left)} left"
                )

            yield advance
