"""Pages of the site: its navigation, and where links to files outside of docs/ lead.

Files of the repository that a page links to are part of the site, below `repository/`: a site needs
no address of a forge, and its links lead to the files of its own version.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from maintenance.site.github import links

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OUTSIDE = "repository"
"""Folder of the site for files outside of docs/."""
DECISIONS = "explanation/decisions/README.md"
PROJECT = (
    ("README", "README.md"),
    ("Changelog", "CHANGELOG.md"),
    ("Security", "SECURITY.md"),
    ("Contributing", "docs/contributing.md"),
)
"""Pages that no section of docs/README.md lists, each with its title."""
_SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n)*)", re.M)
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+\.md)\)", re.M)


def navigation() -> list[dict[str, Any]]:
    """Return mkdocs' navigation: the sections of docs/README.md, with the pages that they list."""
    entries: list[dict[str, Any]] = [{"Home": "README.md"}]
    for title, text in _SECTION.findall((DOCS / "README.md").read_text(encoding="utf-8")):
        rows = _ROW.findall(text)
        entries.append({title: [_page_entry(name, page) for name, page in rows]})
    project = [{title: in_site(ROOT / path)} for title, path in PROJECT]
    return [*entries, {"Project": project}]


def _page_entry(title: str, page: str) -> dict[str, Any]:
    """Return a page's entry; the entry of the decisions contains one for each decision."""
    if page != DECISIONS:
        return {title: page}
    decisions = sorted((DOCS / page).parent.glob("0*.md"))
    return {title: [page, *(path.relative_to(DOCS).as_posix() for path in decisions)]}


def in_site(path: Path) -> str:
    """Return where a file of the repository stands in the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"


def in_repository(site: str) -> Path:
    """Return the file of the repository that stands at a place of the site."""
    outside = site.removeprefix(f"{OUTSIDE}/")
    return ROOT / outside if outside != site else DOCS / site


def targets(page: Path, text: str) -> dict[str, Path]:
    """Return the files of the repository that a page links to, by the text of the link."""
    files: dict[str, Path] = {}
    for link in links(text):
        name = link.partition("#")[0]
        if name and not re.match(r"[a-z][a-z0-9+.-]*:", link):
            target = (page.parent / name).resolve()
            if target.is_relative_to(ROOT) and target.is_file():
                files[link] = target
    return files


def outside() -> set[Path]:
    """Return the files outside of docs/ that are part of the site."""
    todo = [*DOCS.rglob("*.md"), *(ROOT / path for _, path in PROJECT)]
    files: set[Path] = set()
    while todo:
        page = todo.pop()
        if not page.is_relative_to(DOCS):
            files.add(page)
        for target in targets(page, page.read_text(encoding="utf-8")).values():
            if not target.is_relative_to(DOCS) and target not in files:
                files.add(target)
                todo += [target] if target.suffix == ".md" else []
    return files


def relinked(page: Path, text: str) -> str:
    """Return a page's text with its links to files as they are in the site.

    Args:
        page: Path of the page in the repository.
        text: The page's text.
    """
    folder = posixpath.dirname(in_site(page))
    for link, target in targets(page, text).items():
        anchor = link[len(link.partition("#")[0]) :]
        new = posixpath.relpath(in_site(target), folder or ".") + anchor
        text = text.replace(f"]({link})", f"]({new})")
    return text
