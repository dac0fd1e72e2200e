"""The probe's text: what a host is, and whether what its phases expect still holds.

Reads only. What it looks for lies beside the step that expects it: the end of that step's file,
after `MARK`, is part of the probe too.
"""

from __future__ import annotations

import functools
from pathlib import Path

from components.hosts.script import FOLDER

MARK = "# --- found later: the probe has this part too ---\n"
"""Before the functions ``found_<kind>``, ``list_<kind>`` and what they call."""


@functools.cache
def probe() -> str:
    """The script that `components.hosts.inspect` sends to each host."""
    text = (Path(__file__).parent / "probe.sh").read_text()
    head, gap, rest = text.partition("\n\n")
    parts = [file.read_text().partition(MARK)[2] for file in sorted(FOLDER.rglob("*.sh"))]
    return "".join([head, gap, *filter(None, parts), "\n", rest])
