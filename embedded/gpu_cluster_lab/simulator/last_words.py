"""Find the log line that says why a program ended."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_rules.printable import printable

#: Number of bytes that are read from the end of a log, and maximum number of quoted characters.
BYTES, CHARACTERS = 65_536, 400


def last_line(log: Path) -> str:
    """Return the last line of a program's log, worded as the end of a sentence.

    Return "" if the log is empty. If a Go program has panicked, the line before the stack trace is
    used. From a line in JSON, the message and the error are used.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    line = _last_reason([line.strip() for line in lines if line.strip()])
    return f", its log ends with: {printable(line, CHARACTERS)}" if line else ""


def _last_reason(lines: list[str]) -> str:
    stack = next((at for at, line in enumerate(lines) if line.startswith("goroutine ")), None)
    lines = lines[:stack]
    if len(lines) > 1 and lines[-1].startswith("panic: ") and _log_message(lines[-2]):
        # The Go library zap logs a message with its error, then panics with the same message.
        del lines[-1]
    return (_log_message(lines[-1]) or lines[-1]) if lines else ""


def _log_message(line: str) -> str:
    """Return the message and the error of a log line in JSON; "" for any other line."""
    try:
        record = json.loads(line)
    except ValueError:
        return ""
    if not isinstance(record, dict) or "msg" not in record:
        return ""
    return ": ".join(str(record[name]) for name in ("msg", "error", "err") if record.get(name))
