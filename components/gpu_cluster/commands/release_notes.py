"""List what the releases between two versions change for a stack, from the change log.

CHANGELOG.md has the form of Keep a Changelog 1.1.0: a section for each version, the newest first,
below a section `Unreleased`. An entry names the settings that it is about by their paths in
backticks, such as `devicePlugin.version`, and begins with **Breaking** if something must be edited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.base.compatibility import version
from gpu_cluster.change.document import Upgrade, UpgradeNote
from gpu_cluster.change.lines import StackFile

FILE = Path(__file__).resolve().parents[1] / "CHANGELOG.md"
"""The change log of this release; in the source a link to the project's file."""
UNRELEASED = "Unreleased"
BREAKING = "**Breaking**"
PLACES = 5
"""Maximum number of lines of the stack file that a note names."""
_HEADING = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$", re.M)
_GROUP = re.compile(r"^### (\w+)$", re.M)
_ENTRY = re.compile(r"^- (.+(?:\n  .+)*)", re.M)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_SETTING = re.compile(r"`([a-z][A-Za-z0-9]*(?:(?:\[\])?\.[A-Za-z][A-Za-z0-9]*)*)`")


@dataclass(frozen=True)
class Entry:
    """An entry of the change log.

    Attributes:
        group: Its heading, such as ``Changed``.
        text: The entry in one line, without links.
    """

    group: str
    text: str

    @property
    def is_breaking(self) -> bool:
        """Return whether something that exists must be edited."""
        return self.text.startswith(BREAKING)

    @property
    def settings(self) -> list[str]:
        """Return the paths in backticks, which may be settings of a stack file."""
        return [path.replace("[]", "") for path in _SETTING.findall(self.text)]


def sections(text: str) -> dict[str, tuple[str, str]]:
    """Return date and text of each version's section, in the order of the change log.

    The date of the section of unreleased changes is empty.
    """
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    return {
        heading[1]: (heading[2] or "", text[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    }


def entries(section: str) -> Iterator[Entry]:
    """Yield the entries of a version's section."""
    groups = list(_GROUP.finditer(section))
    ends = [*(group.start() for group in groups[1:]), len(section)]
    for group, end in zip(groups, ends, strict=True):
        for entry in _ENTRY.finditer(section[group.end() : end]):
            yield Entry(group[1], _LINK.sub(r"\1", " ".join(entry[1].split())))


def upgrade_of(was: str, now: str, file: StackFile, text: str | None = None) -> Upgrade | None:
    """Return the change log's entries between two versions that concern a stack.

    Args:
        was: Version that deployed the stack last; empty if it is unknown.
        now: Version that is installed.
        file: The stack file.
        text: The change log; None: that of this release.

    Returns:
        The changes. None: the stack was deployed by the same version, or by an unknown one.
    """
    lowest, highest = version(was), version(now)
    if not lowest or was == now:
        return None
    content = FILE.read_text(encoding="utf-8") if text is None else text
    new_entries = [
        entry
        for heading, (_, section) in sections(content).items()
        if heading != UNRELEASED and lowest < version(heading) <= highest
        for entry in entries(section)
    ]
    notes = tuple(
        UpgradeNote(text=entry.text.removeprefix(BREAKING).lstrip(": "), here=here,
                    breaking=entry.is_breaking)
        for entry in new_entries
        if (here := tuple(_places(entry, file))) or entry.is_breaking
    )  # fmt: skip
    return Upgrade(
        was=was, now=now, back=highest < lowest, notes=notes, others=len(new_entries) - len(notes)
    )


def _places(entry: Entry, file: StackFile) -> list[str]:
    """Return the lines of the stack file that declare a setting of an entry."""
    found = [
        f"{file.name}:{line}"
        for at, line in file.lines.items()
        if at and ".".join(str(step) for step in at if isinstance(step, str)) in entry.settings
    ]
    return list(dict.fromkeys(found))[:PLACES]
