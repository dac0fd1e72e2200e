"""Security floors: for each component, the first version without known vulnerabilities.

The floors come from NVIDIA's security bulletins. `make facts` parses the bulletins (CSAF documents,
`gpu_rules.facts.csaf`) and writes the table `security_floors.json`, which this module reads. This
module imports only the standard library and `gpu_rules.printable`, so the rules can import it.
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

from ..faults import PartError
from ..printable import shortened

Version = tuple[int, ...]

TABLE = Path(__file__).with_name("security_floors.json")
ENTRIES = 1000
"""Maximum number of entries in `security_floors.json`; a larger table is rejected as broken."""
_VERSION = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){1,3})(?![0-9.])")
_EXACT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}")
_CVE = re.compile(r"CVE-[0-9]{4}-[0-9]{4,7}")


class Software(StrEnum):
    """Components of a GPU stack that NVIDIA's security bulletins cover."""

    DRIVER = "driver"
    TOOLKIT = "container-toolkit"
    OPERATOR = "gpu-operator"
    DEVICE_PLUGIN = "device-plugin"
    MIG_MANAGER = "mig-manager"
    DCGM = "dcgm"
    DCGM_EXPORTER = "dcgm-exporter"


_LAST = re.compile(r"(?:up to and including|0\.0 +to) v?([0-9]{1,9}(?:\.[0-9]{1,9}){1,3})")
"""Words of a bulletin for the last affected version (`gpu_rules.facts.csaf`)."""


@dataclass(frozen=True, slots=True)
class Floor:
    """A security floor from one NVIDIA bulletin: versions before `fixed` are vulnerable.

    Attributes:
        part: Component that has the vulnerability.
        branch: Driver branch, such as `580`; empty for components without branches.
        bulletin: Number of the bulletin.
        date: Date of the bulletin's newest revision, ISO 8601.
        cves: CVE numbers of the vulnerabilities that the version `fixed` fixes.
        affected: Vulnerable versions, in the bulletin's words.
        fixed: First version without the vulnerabilities.
    """

    part: Software
    branch: str
    bulletin: str
    date: str
    cves: tuple[str, ...]
    affected: str
    fixed: str

    def __post_init__(self) -> None:
        """Raise ValueError if a field, such as the date or a CVE number, has a wrong format."""
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
            raise PartError(f"{self.part} {self.bulletin}: not an entry of the security floors")

    def affects(self, version: str) -> bool:
        """Return whether a version is vulnerable; False for a text that is not a version."""
        numbers = parse(version)
        if not numbers or (self.branch and str(numbers[0]) != self.branch):
            return False
        return numbers < _pad_version(self.fixed) or numbers <= self._last_affected

    @property
    def _last_affected(self) -> Version:
        """Return the last version that the bulletin calls affected; empty if it names none."""
        match = _LAST.search(self.affected)
        return _pad_version(match[1]) if match else ()

    @property
    def contradiction(self) -> str:
        """Return the version that the bulletin calls both affected and fixed; empty: none.

        The strict reading holds: such a version is vulnerable.
        """
        return self.fixed if self._last_affected >= _pad_version(self.fixed) else ""

    def __str__(self) -> str:
        """Return the bulletin's number, date and first three CVE numbers, for a message."""
        return f"NVIDIA bulletin {self.bulletin} of {self.date}: {shortened(self.cves, 3)}"


def parse(text: str) -> Version:
    """Return a version as four numbers, padded with zeros: (580, 65, 6, 0) for `580.65.06`.

    A suffix such as `-ubuntu22.04` is ignored. A text that is not a version gives an empty tuple.
    """
    match = _VERSION.match(text[:60])
    return _pad_version(match[1]) if match else ()


def _pad_version(text: str) -> Version:
    numbers = [int(number) for number in text.split(".")]
    return tuple([*numbers, 0, 0, 0][:4])


def read(text: str) -> tuple[Floor, ...]:
    """Return the security floors in a JSON table with the format of `security_floors.json`.

    Raises:
        ValueError: The text is not a table of security floors.
    """
    entries = json.loads(text)["floors"]
    if not 0 < len(entries) <= ENTRIES:
        raise PartError(f"{len(entries)} entries, wanted 1 to {ENTRIES}")
    return tuple(
        Floor(**{**entry, "part": Software(entry["part"]), "cves": tuple(entry["cves"])})
        for entry in entries
    )


@cache
def floors() -> tuple[Floor, ...]:
    """Return all security floors from the file `security_floors.json`."""
    return read(TABLE.read_text(encoding="utf-8"))


def floor(software: Software, branch: str = "") -> Floor:
    """Return the highest security floor of a component, or of one branch of the NVIDIA driver.

    Args:
        software: The component.
        branch: Driver branch, such as `580`; empty for components without branches.

    Raises:
        LookupError: The table has no floor for the component or branch.
    """
    entries = [
        entry for entry in floors() if entry.part is software and entry.branch in ("", branch)
    ]
    if not entries:
        raise LookupError(f"no security floor of {software} {branch}".rstrip())
    return max(entries, key=lambda entry: (_pad_version(entry.fixed), entry.bulletin))


def below(software: Software, version: str) -> Floor | None:
    """Return the security floor that a version of a component doesn't reach, or None.

    A driver version is compared with the highest floor of its own branch. If the newest bulletin
    does not list that branch but fixes later branches, the branch gets no fix, and the floor of the
    next later branch is returned. A text that is not a version gives None.
    """
    numbers = parse(version)
    if not numbers:
        return None
    highest, newest = borders(software)
    branch = str(numbers[0]) if software is Software.DRIVER else ""
    if branch in highest and highest[branch].affects(version):
        return highest[branch]
    later = [each for each in newest if each and int(each) > numbers[0]]
    return None if branch in newest or not later else newest[min(later, key=int)]


@cache
def borders(software: Software) -> tuple[dict[str, Floor], dict[str, Floor]]:
    """Return two maps from branch to security floor of a component.

    The first map has the highest floor of each branch. The second map has only the floors of the
    newest bulletin. The branch is empty for components without branches.
    """
    entries = sorted(
        (entry for entry in floors() if entry.part is software),
        key=lambda entry: (_pad_version(entry.fixed), entry.bulletin),
    )
    newest = max(((entry.date, entry.bulletin) for entry in entries), default=("", ""))
    return (
        {entry.branch: entry for entry in entries},
        {entry.branch: entry for entry in entries if (entry.date, entry.bulletin) == newest},
    )


def wanted(software: Software, version: str, entry: Floor) -> str:
    """Return text for a message: the version that fixes the vulnerabilities of a given version.

    The fixed version is of the same driver branch if that branch has a fix.
    """
    if entry.branch and str(parse(version)[0]) != entry.branch:
        return f"{entry.fixed} or later: branch {parse(version)[0]} has no fix"
    branch = f" of branch {entry.branch}" if entry.branch else ""
    if entry.contradiction:
        return (
            f"a version later than {entry.fixed}{branch}: the bulletin calls {entry.fixed} both "
            "affected and fixed"
        )
    return f"{entry.fixed} or later{branch}"


def newest_bulletin() -> str:
    """Return the date of the newest bulletin that was read."""
    return max(entry.date for entry in floors())


def unknown_branch(version: str) -> str:
    """Return a sentence if no bulletin that was read names a driver's branch; else empty."""
    numbers = parse(version)
    highest, _ = borders(Software.DRIVER)
    if not numbers or str(numbers[0]) in highest or below(Software.DRIVER, version):
        return ""
    return (
        f"no bulletin that was read names branch {numbers[0]}, the newest is of "
        f"{newest_bulletin()}: that doesn't mean that it is safe"
    )


def exporter(version: str) -> str:
    """Return the DCGM exporter's version from its image tag: 4.8.2 from `4.5.3-4.8.2-distroless`.

    The first part of the tag is the version of DCGM (source: the releases of the GitHub repository
    NVIDIA/dcgm-exporter).
    """
    versions = version.split("-")
    return versions[1] if len(versions) > 1 and parse(versions[1]) else version


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
    """Yield each image with known vulnerabilities, the version to upgrade to, and the floor.

    Args:
        names: Images with tags, as NVIDIA publishes them (`nvcr.io/nvidia/…`).
    """
    for name in names:
        path, _, tag = name.partition("@")[0].rpartition(":")
        software = _IMAGES.get(path.rpartition("/")[2])
        if software is None or not path.startswith("nvcr.io/nvidia/"):
            continue
        version = exporter(tag) if software is Software.DCGM_EXPORTER else tag
        if entry := below(software, version):
            yield name, wanted(software, version, entry), entry
