"""The processes that inspect, one for each part, all within one limit.

They are started before they are asked: they read their libraries while the program reads its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

import pulumi

Json = dict[str, Any]

LIMIT = 60
"""Seconds for the whole inspection; what answers later counts as not reached."""
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


Processes = dict[str, subprocess.Popen[str]]
"""By part."""


def start(*parts: str) -> Processes:
    """A process for each part, which waits for what it is asked."""
    return {part: _start(part) for part in parts}


def answers(processes: Processes, asked: Mapping[str, Json]) -> tuple[Json, str]:
    """What each process that is asked something found, and why one found nothing.

    All have ended afterwards, also those that are asked nothing.
    """
    for part, process in processes.items():
        _ask(process, asked.get(part))
    seen: Json = {}
    deadline, reasons = time.monotonic() + LIMIT, []
    for part, process in processes.items():
        try:
            output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            reasons.append(f"the inspection of the {part} took longer than {LIMIT} s")
            continue
        if process.returncode != 0:
            last = errors.strip().splitlines()[-1:] or ["no message"]
            reasons.append(f"the inspection of the {part} failed: {last[0]}")
        elif part in asked:
            seen[part] = json.loads(output)
    return seen, "; ".join(reasons)


def _start(part: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "components.inspection", part],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ask(process: subprocess.Popen[str], asked: Json | None) -> None:
    """Gives a process its request, and the end of its input, which `communicate` won't find."""
    pipe = process.stdin
    if pipe is None:
        return
    try:
        if asked is not None:
            json.dump(asked, pipe)
        pipe.close()
    except BrokenPipeError:
        pass  # it has ended, and its exit says why
    process.stdin = None
