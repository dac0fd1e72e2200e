"""The page of the verbs is written from their table."""

from __future__ import annotations

from maintenance import verbs_page


def test_the_page_of_the_verbs_is_current() -> None:
    assert verbs_page.PAGE.read_text(encoding="utf-8") == verbs_page.page()
