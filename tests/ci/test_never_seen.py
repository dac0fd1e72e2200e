"""The page of what no run has shown is complete, and what would show it exists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from gpu_cluster.hosts.preflight import SYSTEMS
from gpu_cluster.settings.gpu_operator import SandboxMode
from gpu_cluster.settings.hosts.driver import DriverSource
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_cluster.settings.platform import NAMES
from gpu_cluster.settings.support import TITLES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "never-seen.md"
SYSTEM_NAMES = [name for key in TITLES if key in SYSTEMS for name in TITLES[key].split(", ")]

UNSEEN_ENGINES = set(Engine) - {Engine.CONTAINERD}
UNSEEN_DRIVERS = set(DriverSource) - {DriverSource.PREINSTALLED}
"""Choices without those that real parts served (docs/explanation/real-parts.md)."""


def rows() -> list[list[str]]:
    """Return the cells of each row of the page's tables, without the headings."""
    lines = re.findall(r"^\| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    cells = [line.split(" | ") for line in lines]
    return [row for row in cells if row[0] not in ("never seen", "on", "---")]


@pytest.mark.promise(
    "What no run has shown is listed: each engine, platform, source of a driver, virtual machine "
    "and distribution of the settings is on one page, with what stands in its place."
)
@pytest.mark.parametrize(
    "names", [UNSEEN_ENGINES, NAMES, UNSEEN_DRIVERS, SandboxMode, SYSTEM_NAMES]
)
def test_each_choice_of_the_settings_is_on_the_page(names: Iterable[str]) -> None:
    text = "\n".join(" | ".join(row) for row in rows())
    assert {name for name in names if re.search(rf"(?i)\b{re.escape(name)}", text)} == set(names)


def test_each_row_says_what_stands_in_its_place_and_what_would_show_it() -> None:
    found = rows()
    assert len(found) > 40
    for row in found:
        assert len(row) == 3, row
        assert all(cell.strip() for cell in row), row


def test_what_would_show_it_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = PAGE.read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z0-9-]+)", text):
        assert target in targets, target
    for path in re.findall(r"`(?:sh -s < )?((?:lab|tests)/[a-z_/.]+)`", text):
        assert (ROOT / path).exists(), path
