"""Known weaknesses of containerd and runc, and the first versions without them.

The makers publish security advisories on GitHub, and the Go vulnerability database has them as OSV
documents, with the affected ranges of versions. `make facts` writes `engine_floors.json` from these
documents; this module reads it. A distribution may fix the packages that it builds itself under an
older number: its own notices tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from ..faults import PartError
from ..printable import shortened
from .floors import parse

TABLE = Path(__file__).with_name("engine_floors.json")
ENTRIES = 1000
"""Maximum number of entries in `engine_floors.json`; a larger table is rejected as broken."""
SOFTWARE = ("containerd", "runc")
_EXACT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){2}")
_ADVISORY = re.compile(r"GHSA(-[0-9a-z]{4}){3}")
_CVE = re.compile(r"CVE-[0-9]{4}-[0-9]{4,7}")


@dataclass(frozen=True, slots=True)
class Weakness:
    """A range of versions with a weakness, from one advisory.

    Attributes:
        software: Name in `SOFTWARE`.
        since: First affected version. Empty: all before `fixed`.
        fixed: First later version without the weakness.
        advisory: Number of the maker's advisory.
        date: Date of the OSV document's last change, ISO 8601.
        cves: CVE numbers; may be empty.
    """

    software: str
    since: str
    fixed: str
    advisory: str
    date: str
    cves: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if a field has a wrong format."""
        date.fromisoformat(self.date)
        good = (
            self.software in SOFTWARE
            and (not self.since or _EXACT.fullmatch(self.since))
            and _EXACT.fullmatch(self.fixed)
            and parse(self.since) < parse(self.fixed)
            and _ADVISORY.fullmatch(self.advisory)
            and len(self.cves) <= 100
            and all(map(_CVE.fullmatch, self.cves))
        )
        if not good:
            raise PartError(f"{self.software} {self.advisory}: not an entry of the engines' floors")

    def affects(self, version: str) -> bool:
        """Return whether a version has the weakness; False for a text that is not a version."""
        return bool(numbers := parse(version)) and (
            parse(self.since) <= numbers < parse(self.fixed)
        )

    def __str__(self) -> str:
        """Return the advisory's number, its date and CVE numbers, for a message."""
        numbers = f": {shortened(self.cves, 3)}" if self.cves else ""
        return f"{self.software}'s advisory {self.advisory} of {self.date}{numbers}"


def read(text: str) -> tuple[Weakness, ...]:
    """Return the weaknesses in a JSON table with the format of `engine_floors.json`.

    Raises:
        ValueError: The text is not such a table.
    """
    entries = json.loads(text)["weaknesses"]
    if not 0 < len(entries) <= ENTRIES:
        raise PartError(f"{len(entries)} entries, wanted 1 to {ENTRIES}")
    return tuple(Weakness(**{**entry, "cves": tuple(entry["cves"])}) for entry in entries)


@cache
def weaknesses() -> tuple[Weakness, ...]:
    """Return all weaknesses from the file `engine_floors.json`."""
    return read(TABLE.read_text(encoding="utf-8"))


def unfixed(software: str, version: str) -> Weakness | None:
    """Return a weakness of a version whose `fixed` is the next version without a known one.

    None: no advisory that was read names the version, which does not mean that it is safe.

    The fix of one weakness may have another one: 2.1.5 has one until 2.2.4, which has one until
    2.2.5. So the search goes on from each fix.
    """
    last = None
    while found := [
        each for each in weaknesses() if each.software == software and each.affects(version)
    ]:
        last = max(found, key=lambda each: (parse(each.fixed), each.date, each.advisory))
        version = last.fixed
    return last


def newest_advisory() -> str:
    """Return the date of the newest advisory that was read."""
    return max(each.date for each in weaknesses())


def series() -> Iterator[tuple[str, str]]:
    """Yield each series of versions in which an advisory names a first or a fixed version."""
    for software in SOFTWARE:
        numbers = {
            parse(version)[:2]
            for each in weaknesses()
            for version in (each.since, each.fixed)
            if each.software == software and version
        }
        yield from ((software, ".".join(map(str, pair))) for pair in sorted(numbers))
