"""The processes beside the program, one for each part, each with the library that it needs.

They are started before they are asked: they read their libraries while the program reads its own.
The hosts' outlives the inspection in a run that changes something: what is copied to hosts goes
over the connections that it has.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import IO, TYPE_CHECKING, Any, Self, cast

import pulumi

from config.printable import printable

if TYPE_CHECKING:
    from concurrent.futures import Future

Json = dict[str, Any]

LIMIT = 60
"""Seconds for the whole inspection; what answers later counts as not reached."""
ENDING = 5
"""Seconds for a process to end once its input has."""
EXTENT = "GPU_CLUSTER_LOOK"
"""Variable that says what is inspected; without it hosts and cluster."""


class Extent(StrEnum):
    """What is inspected: ``cluster`` leaves the hosts alone, ``hosts`` the cluster."""

    ALL = "all"
    CLUSTER = "cluster"
    HOSTS = "hosts"
    OFF = "off"

    @property
    def parts(self) -> tuple[str, ...]:
        """What each process inspects."""
        return {Extent.ALL: ("cluster", "hosts"), Extent.OFF: ()}.get(self, (self.value,))

    @classmethod
    def wanted(cls) -> Self:
        """What the environment says.

        Raises:
            RunError: it says what is not known.
        """
        found = os.environ.get(EXTENT, cls.ALL)
        if found not in set(cls):
            raise pulumi.RunError(
                f"{EXTENT}: found {found!r}; wanted: {', '.join(cls)}; cure: unset {EXTENT}"
            )
        return cls(found)


class NoAnswer(Exception):
    """A process failed, and says why."""


class Process:
    """One process: a line of JSON for each question, and one for each answer, in any order.

    It ends with its input, so also when the program is killed.
    """

    def __init__(self, part: str) -> None:
        """Starts it.

        Args:
            part: argument of ``components.inspection``.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "components.inspection", part],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lock = threading.Lock()
        self._asked: dict[int, Future[Json]] = {}
        self._count = 0
        self._why = ""
        self._last = "no message"
        self._pipe = cast("IO[str]", self._process.stdin)
        self._threads = [
            threading.Thread(target=self._hear, args=(self._process.stderr,), daemon=True),
            threading.Thread(target=self._answer, args=(self._process.stdout,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def ended(self) -> bool:
        """Whether it answers no more."""
        return bool(self._why)

    def ask(self, question: Json) -> Future[Json]:
        """What it will answer, or the `NoAnswer` that comes instead."""
        from concurrent.futures import Future  # 8 ms, while the process reads its libraries

        future: Future[Json] = Future()
        future.set_running_or_notify_cancel()  # who asked may go, and the answer comes all the same
        with self._lock:
            if self._why:
                future.set_exception(NoAnswer(self._why))
                return future
            self._count = number = self._count + 1
            self._asked[number] = future
        line = json.dumps({"number": number, "question": question})
        with suppress(BrokenPipeError):  # it has ended, and its last words say why
            self._pipe.write(f"{line}\n")
            self._pipe.flush()
        return future

    def end(self) -> int:
        """Ends its input, then it; its status."""
        with suppress(BrokenPipeError):  # a question that it did not wait for
            self._pipe.close()
        try:
            status = self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        for thread in self._threads:
            thread.join()
        return status

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self.end()

    def _hear(self, errors: IO[str]) -> None:
        """Remembers the last of its words on standard error."""
        with errors:
            for line in errors:
                self._last = line.strip() or self._last

    def _answer(self, lines: IO[str]) -> None:
        """Hands each answer to who asked, and to all others, after the last, why there is none."""
        with lines:
            for line in lines:
                try:
                    said = json.loads(line)
                except ValueError:  # it was ended in the middle of a line
                    self._process.kill()
                    break
                with self._lock:
                    future = self._asked.pop(said["number"])
                if "failed" in said:
                    future.set_exception(NoAnswer(said["failed"]))
                else:
                    future.set_result(said["answer"])
        self._threads[0].join()
        with self._lock:
            self._why = self._last
        for future in self._asked.values():
            future.set_exception(NoAnswer(self._why))


class Processes:
    """The processes of one run, by part."""

    def __init__(self, *parts: str) -> None:
        """Starts one for each part.

        Args:
            parts: ``cluster``, ``hosts``, ``rollout``.
        """
        self._running = {part: Process(part) for part in parts}
        atexit.register(self.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def answers(self, questions: Mapping[str, Json]) -> tuple[Json, str]:
        """What each process that is asked something found, and why one found nothing.

        A part without a process is not asked.
        """
        deadline, reasons = time.monotonic() + LIMIT, []
        asked = {
            part: process.ask(questions[part])
            for part, process in self._running.items()
            if part in questions
        }
        seen: Json = {}
        for part, future in asked.items():
            try:
                seen[part] = future.result(max(0.1, deadline - time.monotonic()))
            except TimeoutError:
                self._running.pop(part).kill()
                reasons.append(f"the inspection of the {part} took longer than {LIMIT} s")
            except NoAnswer as reason:
                reasons.append(f"the inspection of the {part} failed: {printable(str(reason))}")
        return seen, "; ".join(reasons)

    def ask(self, part: str, question: Json) -> Future[Json]:
        """What the process of a part will answer; it is started where none is there.

        The future's error is `NoAnswer`.
        """
        if part in self._running and self._running[part].ended:
            self._running.pop(part).end()
        if part not in self._running:
            self._running[part] = Process(part)
        return self._running[part].ask(question)

    def end(self, but: Collection[str] = ()) -> dict[str, int]:
        """Ends the processes; their status by part.

        Args:
            but: parts whose processes stay.
        """
        ended = {part: process.end() for part, process in self._running.items() if part not in but}
        for part in ended:
            del self._running[part]
        return ended
