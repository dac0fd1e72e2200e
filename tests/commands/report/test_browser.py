"""The report's page in a real Chromium: no fault by axe-core, and no horizontal scrolling."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.commands.report.page import page
from tests.commands.report.browser import in_frame, judged
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


BROKEN = """(() => {
  const broken = [];
  for (const cell of page.querySelectorAll("th, td")) {
    const walker = page.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/[A-Za-z0-9]+/g)) {
        const range = page.createRange();
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(each => each.top));
        if (lines.size > 1) broken.push(word[0]);
      }
    }
  }
  return {broken, over: page.documentElement.scrollWidth - page.documentElement.clientWidth};
})()"""
"""The words of tables that stand on two lines, and how far the page is wider than its frame."""


@pytest.mark.parametrize("width", [320, 500, 1000])
def test_a_narrow_page_breaks_no_word_of_a_table_and_scrolls_only_tables(
    width: int, tmp_path: Path
) -> None:
    found = in_frame(page(of_size(4)), tmp_path, BROKEN, width)
    assert found == {"broken": [], "over": 0}


def test_axe_finds_what_is_wrong(tmp_path: Path) -> None:
    text = page(of_size(4)).replace('<html lang="en">', "<html>")
    text = text.replace("<footer>", '<footer><a href="#x"></a>')
    found = judged(text, tmp_path, dark=False)
    assert {one["id"] for one in found.violations} == {"html-has-lang", "link-name"}
