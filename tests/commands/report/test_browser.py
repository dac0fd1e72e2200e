"""The report's page in a real Chromium: no fault by axe-core, and no horizontal scrolling."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.commands.report.page import page
from tests.commands.report.browser import judged
from tests.commands.report.reports import of_size

pytestmark = pytest.mark.slow


@pytest.mark.promise("The report has no violation of axe-core's rules in Chromium.")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("nodes", [4, 1000])
def test_axe_finds_no_violation(nodes: int, dark: bool, tmp_path: Path) -> None:
    found = judged(page(of_size(nodes)), tmp_path, dark=dark)
    assert found.dark is dark
    assert {"color-contrast", "region", "document-title", "list"} <= set(found.passes)
    assert found.violations == []
    assert found.incomplete == []


def test_axe_finds_what_is_wrong(tmp_path: Path) -> None:
    text = page(of_size(4)).replace('<html lang="en">', "<html>")
    text = text.replace("<footer>", '<footer><a href="#x"></a>')
    found = judged(text, tmp_path, dark=False)
    assert {one["id"] for one in found.violations} == {"html-has-lang", "link-name"}
