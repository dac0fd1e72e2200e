"""Starts the look at hosts and cluster and takes its result: findings, never changes.

The look runs in a process of its own beside the program's imports. What it can't reach is told and
does not stop a preview; what contradicts the configuration does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

#: Seconds for the whole look; what answers later counts as not reached.
LIMIT = 60


@dataclass(frozen=True)
class Found:
    """What the look found.

    Attributes:
        unreachable: why the cluster was not seen; empty when it was.
        problems: what contradicts the configuration and must stop the run.
        scheduling: by pool, what its nodes lack.
        validation: by pool, why its last validation no longer holds.
    """

    unreachable: str = ""
    problems: tuple[str, ...] = ()
    scheduling: dict[str, str] = field(default_factory=dict)
    validation: dict[str, str] = field(default_factory=dict)


class Look:
    """A look under way."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "facts"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, context: str, scheduling: list[Json], validation: list[Json]) -> None:
        """Tells the process what to look at; it has been importing meanwhile."""
        pipe = self._process.stdin
        if pipe is None:
            raise RuntimeError("a look is asked once")
        request = {"context": context, "scheduling": scheduling, "validation": validation}
        json.dump(request, pipe)
        pipe.close()
        self._process.stdin = None

    def result(self) -> Found:
        """Waits for the findings, at most `LIMIT` seconds."""
        try:
            output, errors = self._process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return Found(unreachable=f"no answer within {LIMIT} s")
        if self._process.returncode != 0:
            last = errors.strip().splitlines()[-1:] or ["no message"]
            return Found(unreachable=f"the look at the cluster failed: {last[0]}")
        cluster = json.loads(output)["cluster"]
        return Found(
            unreachable=cluster.get("unreachable", ""),
            problems=tuple(cluster["problems"]),
            scheduling=cluster["scheduling"],
            validation=cluster["validation"],
        )
