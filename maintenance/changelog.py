"""Program of `make changelog`: date the changelog's section of unreleased changes, for a release.

CHANGELOG.md has the form of Keep a Changelog 1.1.0: a section for each version, the newest first,
below a section `Unreleased`. The section of a version is the text of its release.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

from gpu_cluster.commands.files import ROOT
from gpu_cluster.commands.release_notes import UNRELEASED, sections
from maintenance.version import declared

FILE = ROOT / "CHANGELOG.md"
GROUPS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Headings below a version, of Keep a Changelog."""
_RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")


def notes(text: str, version: str) -> str:
    """Return the text of a release, from the changelog's text.

    Raises:
        SystemExit: The changelog says nothing about the version, or has no date for it.
    """
    date, section = sections(text).get(version, ("", ""))
    if not section or (version != UNRELEASED and not date):
        sys.exit(
            f"CHANGELOG.md: found no dated section [{version}] with changes; wanted: one, it is "
            "the text of the release; cure: make changelog, then commit"
        )
    # A release's page has no folder that a relative link could start from.
    return _RELATIVE.sub(r"\1", section) + "\n"


def release_text(text: str, version: str, date: str) -> str:
    """Return the changelog's text in which the unreleased changes are those of a version.

    Args:
        text: Text of the changelog.
        date: The day of its release, such as 2026-11-27.

    Raises:
        SystemExit: There are no unreleased changes, or the version has a section.
    """
    notes(text, UNRELEASED)
    if version in sections(text):
        sys.exit(
            f"CHANGELOG.md: found a section [{version}]; wanted: none, the version is released; "
            "cure: raise `version` in pyproject.toml and policies/pyproject.toml"
        )
    text = re.sub(r"^This will be .*\n(?:.+\n)*\n", "", text, count=1, flags=re.M)
    heading = f"## [{UNRELEASED}]\n"
    return text.replace(heading, f"{heading}\n## [{version}] - {date}\n", 1)


def main(file: Path = FILE) -> None:
    """Give the unreleased changes the version of pyproject.toml and today's date."""
    version = declared()
    date = datetime.now(UTC).date().isoformat()
    file.write_text(release_text(file.read_text(encoding="utf-8"), version, date), encoding="utf-8")
    print(f"{file.name}: {version}, {date}; commit it, then push the tag v{version}")


if __name__ == "__main__":
    main()
