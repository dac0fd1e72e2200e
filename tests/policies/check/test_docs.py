"""The commands in the documentation of the checker are valid."""

from __future__ import annotations

import re
import shlex

from gpu_rules.check import arguments
from gpu_rules.check.formats import FORMATS
from tests.policies.check.running import ROOT

PAGE = (ROOT / "docs" / "how-to" / "check.md").read_text()


def test_every_command_of_the_page_is_valid() -> None:
    start = r"(?:python -m (?:gpu_rules|gpu_cluster\.guardrails)\.check|gpu-rules check)"
    commands = re.findall(rf"{start} ([^#|\n`]+)", PAGE)
    assert len(commands) >= 8
    for command in commands:
        arguments.parse(shlex.split(command))


def test_every_format_is_described() -> None:
    assert re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE) == list(FORMATS)
