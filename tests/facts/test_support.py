"""A claim of the documents that has passed its end says so."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from components.settings.support import overdue, support

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.versions("claim")
@pytest.mark.promise("No listed claim of the documents has passed its end without saying so.")
def test_no_claim_is_past_its_end() -> None:
    assert overdue(ROOT, date.today()) == []


def test_a_claim_past_its_end_is_found() -> None:
    assert "docs/real-parts.md: containerd/2.3 ended" in overdue(ROOT, date(2028, 4, 28))
    assert overdue(ROOT, date(2026, 11, 26)) == []


def test_the_last_day_is_supported() -> None:
    assert not support().ended("kubernetes/1.34", date(2026, 10, 27))
    assert support().ended("kubernetes/1.34", date(2026, 10, 28))
