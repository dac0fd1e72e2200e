"""Compare translations with their page in English, which is the one whose commands run.

`first-hour.zh.md` is the translation of `first-hour.md` into Chinese. A translation has the same
parts in the same order: headings, code blocks with their marks, rows of tables, items of lists;
and in each section the same links and the same names in code. Only the text differs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from markdown_it.token import Token

from maintenance.site.github import links, parse
from tests.proofs.docs.pages import ROOT, original, pages

_PARTS = {
    "list_item_open": "item of a list",
    "tr_open": "row of a table",
    "th_open": "head of a column",
}


def translations() -> list[Path]:
    """Return all translations of pages."""
    return [path for path in pages() if original(path)]


def in_other_languages(path: Path) -> set[str]:
    """Return the names of the files that are the same page in other languages."""
    first = original(path) or path
    found = {each.name for each in first.parent.glob("*.md") if original(each) == first}
    return (found | {first.name}) - {path.name}


def outline(text: str, languages: set[str]) -> list[str]:
    """Return the parts of a page that are the same in each language.

    Args:
        text: Text of the page.
        languages: Links to this page in other languages, which are left out.
    """
    found: list[str] = []
    named: set[str] = set()
    linked: list[str] = []

    def end_section() -> None:
        found.extend([*(f"link {link}" for link in sorted(linked)), *sorted(named)])
        named.clear()
        linked.clear()

    mark = ""
    for token in parse(text):
        if token.type == "heading_open":
            end_section()
            found.append(f"heading {token.tag}")
        elif token.type == "fence":
            found.append(f"code block {mark}{token.info}: {token.content!r}")
        elif token.type in _PARTS:
            found.append(_PARTS[token.type])
        mark = f"{token.content.strip()} " if token.type == "html_block" else ""
        linked += [link for link in _links(token) if link not in languages]
        named |= {f"`{one.content}`" for one in token.children or () if one.type == "code_inline"}
    end_section()
    return found


def _links(token: Token) -> list[str]:
    found = [child.attrGet("href") or child.attrGet("src") for child in token.children or ()]
    return [str(target) for target in found if target]


def differences(path: Path, english: str | None = None) -> Iterator[str]:
    """Yield what a translation has more (+) or less (-) than its page in English.

    Args:
        path: Path of the translation.
        english: Text of the page in English, if it is not the file's.
    """
    first = original(path)
    if first is None:
        raise ValueError(f"{path}: not named as a translation")
    english = first.read_text(encoding="utf-8") if english is None else english
    text = path.read_text(encoding="utf-8")
    sides = (outline(english, in_other_languages(first)), outline(text, in_other_languages(path)))
    name = path.relative_to(ROOT)
    for line in list(difflib.unified_diff(*sides, lineterm="", n=0))[2:]:
        if not line.startswith("@@"):
            yield f"{name}: {line[0]} {line[1:]}"
    for page, page_text in ((first, english), (path, text)):
        for other in sorted(in_other_languages(page) - set(links(page_text))):
            yield f"{page.relative_to(ROOT)}: no link to {other}"
