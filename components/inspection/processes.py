"""The processes that inspect, one for each part, all within one limit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

Json = dict[str, Any]

LIMIT = 60
"""Seconds for the whole inspection; what answers later counts as not reached."""


def run(parts: tuple[str, ...], asked: Json) -> tuple[Json, str]:
    """What a process for each part found, and why one found nothing."""
    processes = {part: _start(part) for part in parts}
    for part, process in processes.items():
        _ask(process, asked[part])
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
        if process.returncode == 0:
            seen[part] = json.loads(output)
            continue
        last = errors.strip().splitlines()[-1:] or ["no message"]
        reasons.append(f"the inspection of the {part} failed: {last[0]}")
    return seen, "; ".join(reasons)


def _start(part: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "components.inspection", part],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ask(process: subprocess.Popen[str], asked: Json) -> None:
    """Gives a process its request, and the end of its input, which `communicate` won't find."""
    pipe = process.stdin
    if pipe is None:
        return
    try:
        json.dump(asked, pipe)
        pipe.close()
    except BrokenPipeError:
        pass  # it has ended, and its exit says why
    process.stdin = None
