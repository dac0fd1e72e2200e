"""The security floors: which version of a part fixes what a bulletin reports.

`make facts` writes the table from NVIDIA's CSAF documents (`policies.facts.csaf`). It needs the
standard library alone, so the rules read it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path

Version = tuple[int, ...]

TABLE = Path(__file__).with_name("security_floors.json")
ENTRIES = 1000
"""More entries than this are no table of ours."""
_VERSION = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){1,3})(?![0-9.])")
_EXACT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}")
_CVE = re.compile(r"CVE-[0-9]{4}-[0-9]{4,7}")


class Software(StrEnum):
    """The parts of a GPU stack that bulletins report on."""

    DRIVER = "driver"
    TOOLKIT = "container-toolkit"
    OPERATOR = "gpu-operator"
    DEVICE_PLUGIN = "device-plugin"
    MIG_MANAGER = "mig-manager"
    DCGM = "dcgm"
    DCGM_EXPORTER = "dcgm-exporter"


@dataclass(frozen=True, slots=True)
class Floor:
    """One border of one bulletin: versions of `part` before `fixed` are affected.

    Attributes:
        part: what the bulletin reports on.
        branch: of the driver, such as ``580``; empty for parts without branches.
        bulletin: the number of the bulletin; `date`: of its newest revision, ISO 8601.
        cves: the weaknesses that `fixed` fixes.
        affected: the affected versions, in the bulletin's words.
        fixed: the first version without them.
    """

    part: Software
    branch: str
    bulletin: str
    date: str
    cves: tuple[str, ...]
    affected: str
    fixed: str

    def __post_init__(self) -> None:
        """Refuse an entry that is none."""
        Software(self.part)
        date.fromisoformat(self.date)
        good = (
            _EXACT.fullmatch(self.fixed)
            and re.fullmatch(r"[0-9]{1,9}", self.bulletin)
            and re.fullmatch(r"([0-9]{3})?", self.branch)
            and 0 < len(self.cves) <= 100
            and all(map(_CVE.fullmatch, self.cves))
            and 0 < len(self.affected) <= 200
            and self.affected.isprintable()
        )
        if not good:
            raise ValueError(f"{self.part} {self.bulletin}: not an entry of the security floors")

    def affects(self, version: str) -> bool:
        """Return whether this border is above a version of the part; False for no version."""
        numbers = parse(version)
        if not numbers or (self.branch and str(numbers[0]) != self.branch):
            return False
        return numbers < _padded(self.fixed)

    def __str__(self) -> str:
        """Return the bulletin and its weaknesses, for a message."""
        more = f" and {len(self.cves) - 3} more" if len(self.cves) > 3 else ""
        return f"NVIDIA bulletin {self.bulletin} of {self.date}: {', '.join(self.cves[:3])}{more}"


def parse(text: str) -> Version:
    """Return the numbers that a version begins with, filled up to four; empty without."""
    match = _VERSION.match(text[:60])
    return _padded(match[1]) if match else ()


def _padded(text: str) -> Version:
    numbers = [int(part) for part in text.split(".")]
    return tuple([*numbers, 0, 0, 0][:4])


def read(text: str) -> tuple[Floor, ...]:
    """Return the entries of a table.

    Raises:
        ValueError: it is no table of security floors.
    """
    entries = json.loads(text)["floors"]
    if not 0 < len(entries) <= ENTRIES:
        raise ValueError(f"{len(entries)} entries, wanted 1 to {ENTRIES}")
    return tuple(
        Floor(**{**entry, "part": Software(entry["part"]), "cves": tuple(entry["cves"])})
        for entry in entries
    )


@cache
def floors() -> tuple[Floor, ...]:
    """Return the committed table."""
    return read(TABLE.read_text(encoding="utf-8"))


def floor(part: Software, branch: str = "") -> Floor:
    """Return the highest border of a part, or of a branch of it.

    Raises:
        LookupError: the table has none.
    """
    found = [entry for entry in floors() if entry.part is part and entry.branch in ("", branch)]
    if not found:
        raise LookupError(f"no security floor of {part} {branch}".rstrip())
    return max(found, key=lambda entry: (_padded(entry.fixed), entry.bulletin))


def below(part: Software, version: str) -> Floor | None:
    """Return the highest border that is above a version, of the version's own branch.

    A driver of a branch that the newest bulletin leaves out, though it fixes later branches, gets
    the border of the next later branch: its own has no fix. A text that isn't a version gives None.
    """
    numbers = parse(version)
    if not numbers:
        return None
    highest, newest = borders(part)
    branch = str(numbers[0]) if part is Software.DRIVER else ""
    if branch in highest and highest[branch].affects(version):
        return highest[branch]
    later = [each for each in newest if each and int(each) > numbers[0]]
    return None if branch in newest or not later else newest[min(later, key=int)]


@cache
def borders(part: Software) -> tuple[dict[str, Floor], dict[str, Floor]]:
    """Return the highest border of each branch of a part, and those of its newest bulletin."""
    found = sorted(
        (entry for entry in floors() if entry.part is part),
        key=lambda entry: (_padded(entry.fixed), entry.bulletin),
    )
    newest = max(((entry.date, entry.bulletin) for entry in found), default=("", ""))
    return (
        {entry.branch: entry for entry in found},
        {entry.branch: entry for entry in found if (entry.date, entry.bulletin) == newest},
    )


def wanted(part: Software, version: str, entry: Floor) -> str:
    """Return which version to take, for a message: of the version's own branch if it has one."""
    if entry.branch and str(parse(version)[0]) != entry.branch:
        return f"{entry.fixed} or later: branch {parse(version)[0]} has no fix"
    branch = f" of branch {entry.branch}" if entry.branch else ""
    return f"{entry.fixed} or later{branch}"


def exporter(version: str) -> str:
    """Return the exporter's own version of a tag such as ``4.5.3-4.8.2-distroless``.

    The first number is DCGM's (NVIDIA/dcgm-exporter, its releases).
    """
    parts = version.split("-")
    return parts[1] if len(parts) > 1 and parse(parts[1]) else version


_IMAGES: dict[str, Software] = {
    "driver": Software.DRIVER,
    "container-toolkit": Software.TOOLKIT,
    "gpu-operator": Software.OPERATOR,
    "k8s-device-plugin": Software.DEVICE_PLUGIN,
    "k8s-mig-manager": Software.MIG_MANAGER,
    "dcgm": Software.DCGM,
    "dcgm-exporter": Software.DCGM_EXPORTER,
}


def of_images(names: tuple[str, ...]) -> Iterator[tuple[str, str, Floor]]:
    """Yield the images below a floor, with the version to take and the border.

    Args:
        names: images with tags, as their makers publish them.
    """
    for name in names:
        path, _, tag = name.partition("@")[0].rpartition(":")
        part = _IMAGES.get(path.rpartition("/")[2])
        if part is None or not path.startswith("nvcr.io/nvidia/"):
            continue
        version = exporter(tag) if part is Software.DCGM_EXPORTER else tag
        if entry := below(part, version):
            yield name, wanted(part, version, entry), entry
