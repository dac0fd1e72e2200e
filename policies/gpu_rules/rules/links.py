"""Links to the sections of the rules' reference, docs/rules.md."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

REFERENCE = "GPU_RULES_REFERENCE"
"""Environment variable with the web address at which docs/rules.md is published."""
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "rules.md"
"""The page in a clone of the project."""


def anchor(id_: str) -> str:
    """Return the anchor of a rule's section."""
    return id_.lower()


def link(id_: str) -> str | None:
    """Return the address of a rule's section in docs/rules.md; None if the page is unknown.

    An http(s) address in the environment variable GPU_RULES_REFERENCE takes precedence.
    Otherwise the page is docs/rules.md in a clone of the project, which an installed package lacks.
    """
    page = os.environ.get(REFERENCE, "")
    if urlsplit(page).scheme not in ("https", "http"):
        if not _PAGE.is_file():
            return None
        page = _PAGE.as_uri()
    return f"{page}#{anchor(id_)}"
