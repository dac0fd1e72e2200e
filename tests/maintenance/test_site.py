"""The documentation as a site: each page stands in its navigation, and reads as on GitHub."""

from __future__ import annotations

import difflib
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maintenance.site import build, pages
from maintenance.site.github import for_mkdocs
from tests.ci.site_text import in_site, on_github

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = re.compile(r'<(?:script|link|img)[^>]* (?:src|href)="?(?:https?:)?//')
"""What loads something from another server."""


def entries(navigation: list[Any]) -> Iterator[str]:
    """Yield the pages of a navigation in their order."""
    for entry in navigation:
        for inside in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [inside] if isinstance(inside, str) else entries(inside)


def shown() -> list[Path]:
    """Return the pages of the site, as files of the repository."""
    outside = (path for path in pages.outside() if path.suffix == ".md")
    return sorted([*(ROOT / "docs").rglob("*.md"), *outside])


@pytest.mark.promise("Each page of the documentation stands once in the navigation of its site.")
def test_each_page_stands_in_the_navigation_exactly_once() -> None:
    found = Counter(entries(pages.navigation()))
    assert found == Counter(pages.in_site(path) for path in shown())
    assert [path for path in found if not pages.in_repository(path).is_file()] == []


def test_a_link_to_a_file_outside_of_the_documentation_leads_into_the_site() -> None:
    page = ROOT / "docs" / "how-to" / "package.md"
    text = "[a](../../Pulumi.prod.yaml), [b](nodes.md#x), [c](https://example.org), `[d](../x.md)`"
    assert pages.relinked(page, text) == text.replace(
        "../../Pulumi.prod.yaml", "../repository/Pulumi.prod.yaml"
    )
    readme = ROOT / "README.md"
    assert pages.relinked(readme, "![a](docs/images/page.png)") == "![a](../images/page.png)"


PAGE = """Text:
- a list that begins without a blank line
| which | `a\\|b` | \\<c> |
| --- | --- | --- |

1. First:
   ```sh a.sh
   - no list
   ```
   After it.
2. Second
   - inner,
   over two lines

     own paragraph
<!-- not run: needs a host -->
"""
READ = """Text:

- a list that begins without a blank line

| which | `a|b` | &#60;c> |
| --- | --- | --- |

1. First:

    ```sh title="a.sh"
    - no list
    ```

    After it.

2. Second
    - inner,
        over two lines

        own paragraph

"""


def test_a_page_is_rewritten_for_python_markdown() -> None:
    assert for_mkdocs(PAGE.replace("line\n|", "line\n\n|")) == READ


def test_a_page_without_lists_stays_as_it_is() -> None:
    text = "# Title\n\nA paragraph.\n\n```sh\nmake \\<x\n```\n\n| a |\n| --- |\n| b |\n"
    assert for_mkdocs(text) == text


def test_versions_next_to_each_other_are_listed_the_newest_first(tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.0", build.UNRELEASED):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    build.list_versions(tmp_path)
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [each["version"] for each in listed] == ["0.10.0", "0.9.0", "next"]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a site built from the pages; strict, so a dead link fails."""
    made = subprocess.run(
        ["make", "venv-site/.complete"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip("mkdocs can't be had: make venv-site/.complete fails")
    folder = tmp_path_factory.mktemp("site") / "0.1.0"
    build.build(folder, "0.1.0")
    return folder


@pytest.mark.slow
@pytest.mark.promise("A page of the site shows what GitHub shows: text, lists, tables, code.")
def test_each_page_of_the_site_reads_as_on_github(site: Path) -> None:
    for path in shown():
        name = Path(pages.in_site(path))
        made = site / (name.parent / "index.html" if name.stem == "README" else name)
        html = made.with_suffix(".html").read_text(encoding="utf-8")
        github = on_github(path.read_text(encoding="utf-8"))
        assert "\n".join(difflib.unified_diff(github, in_site(html), lineterm="", n=0)) == "", name


@pytest.mark.slow
@pytest.mark.promise("The site of the documentation loads nothing from another server.")
def test_the_site_is_whole_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert ELSEWHERE.findall(text) == [], page
    assert "version 0.1.0" in (site / "index.html").read_text(encoding="utf-8")
    assert "MIG" in (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert (site / "repository" / "Pulumi.prod.yaml").read_bytes() == (
        ROOT / "Pulumi.prod.yaml"
    ).read_bytes()
