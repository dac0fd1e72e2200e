"""The changelog: its form, and the text that a release takes from it."""

from __future__ import annotations

import re

import pytest

from gpu_cluster.commands.release_notes import UNRELEASED, sections
from maintenance import changelog
from maintenance.version import declared

TEXT = """# Changelog

## [Unreleased]

This will be 0.2.0.

### Fixed

- A fault ([page](docs/a.md), [source](https://example.org)).

## [0.1.0] - 2026-01-02

### Added

- All.
"""
FIXED = "### Fixed\n\n- A fault ([page](docs/a.md), [source](https://example.org))."


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = changelog.FILE.read_text(encoding="utf-8")
    found = sections(text)
    assert len(found) == len(re.findall("^## ", text, re.MULTILINE))
    assert next(iter(found)) == UNRELEASED
    dates = [date for date, _ in found.values()]
    assert dates == ["", *sorted(filter(None, dates), reverse=True)]
    assert set(re.findall("^### (.+)$", text, re.MULTILINE)) <= set(changelog.GROUPS)
    # The package's version is the newest release, or the one that is being made.
    assert declared() in found or f"This will be {declared()}," in text


def test_a_release_gets_its_section_and_the_unreleased_one_is_empty() -> None:
    made = changelog.release_text(TEXT, "0.2.0", "2026-02-03")
    assert sections(made)["Unreleased"] == ("", "")
    assert sections(made)["0.2.0"] == ("2026-02-03", FIXED)
    assert (
        changelog.notes(made, "0.2.0")
        == "### Fixed\n\n- A fault (page, [source](https://example.org)).\n"
    )
    assert changelog.notes(made, "0.1.0") == changelog.notes(TEXT, "0.1.0")


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_a_version_is_dated_once_and_only_with_changes(version: str) -> None:
    made = changelog.release_text(TEXT, "0.2.0", "2026-02-03")
    with pytest.raises(SystemExit, match="cure"):
        changelog.release_text(made, version, "2026-02-04")
    with pytest.raises(SystemExit, match="cure"):
        changelog.release_text(TEXT, "0.1.0", "2026-02-04")


def test_a_version_without_a_dated_section_has_no_text() -> None:
    with pytest.raises(SystemExit, match=re.escape("[0.2.0]")):
        changelog.notes(TEXT, "0.2.0")
