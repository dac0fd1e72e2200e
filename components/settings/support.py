"""Ends of support, and the claims of the documents that depend on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr, TypeAdapter

from components.base import yaml_file
from components.base.model import Model

FILE = Path(__file__).with_name("support.yaml")
PAGE = "docs/support.md"
ShortText = Annotated[StrictStr, Field(min_length=1, max_length=200)]

REBUILDS = {"rocky": "rhel", "almalinux": "rhel", "ol": "rhel"}
"""Systems that are held to the days of another."""
TITLES = {
    "kubernetes": "Kubernetes",
    "containerd": "containerd",
    "driver": "NVIDIA driver branches",
    "debian": "Debian",
    "ubuntu": "Ubuntu",
    "rhel": "RHEL, Rocky, AlmaLinux, Oracle Linux",
    "amzn": "Amazon Linux",
}
CLAIMS: Mapping[str, str] = {
    # A citation reads "kubernetes v1.34"; "1.34 or later" and "since 1.31" are floors.
    "kubernetes": r"(?<![\d.])(?<!since )(?<!kubernetes v)(1\.[3-9]\d)(?:\.\d+)?"
    r"(?!\d|\.\d| or later| on)",
    "containerd": r"containerd[-, |a-z`]{1,20}v?([12]\.\d+)",
    "driver": r"(?:[Dd]river|[Bb]ranch|R)[ |]?([3-9]\d\d)\b",
    "debian": r"Debian (\d+)",
    "ubuntu": r"Ubuntu (\d+\.\d+)",
    "rhel": r"(?:RHEL|Rocky|AlmaLinux|Oracle Linux) (\d+)",
    "amzn": r"Amazon Linux (\d+)",
}
"""How documents name the versions of each part."""
SILENT = ("promises.md", "benchmarks.md", "support.md")
"""Pages that claim no versions: made from marks, of measurements on a day, and the table itself."""


class Ends(Model):
    """The last days of support of one part's versions, and where they are written."""

    source: ShortText
    last: dict[ShortText, date] = Field(min_length=1, max_length=100)


@dataclass(frozen=True, slots=True)
class End:
    """The last day of support of one version, and where it is written."""

    version: str
    last: date
    source: str

    def __str__(self) -> str:
        """Return the end for a message."""
        return f"support ended on {self.last} ({self.source})"


@cache
def support() -> Mapping[str, Ends]:
    """Return what the file says, by part."""
    parts = TypeAdapter(dict[ShortText, Ends])
    return parts.validate_python(yaml_file.read(FILE).value)


def end(part: str, version: str) -> End | None:
    """Return the end of a version such as ``v1.34.4``; None where the table has none.

    The longest beginning that the table has counts: `24.04.1` is `24.04`, `595.91.07` is `595`.
    """
    ends = support().get(REBUILDS.get(part, part))
    match = re.match(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){0,3})", version[:40])
    numbers = match[1].split(".") if match else []
    for count in range(len(numbers), 0, -1):
        key = ".".join(numbers[:count])
        if ends is not None and key in ends.last:
            return End(key, ends.last[key], ends.source)
    return None


def ended(part: str, version: str, today: date) -> End | None:
    """Return the end of a version that has passed its last day; else None."""
    found = end(part, version)
    return found if found is not None and found.last < today else None


def supported(part: str, today: date) -> list[str]:
    """Return the versions of a part that have not passed their last day."""
    last = support()[REBUILDS.get(part, part)].last
    return [version for version in last if last[version] >= today]


def page(proved: Mapping[str, tuple[str, ...]], today: date) -> str:
    """Return the page of all ends.

    Args:
        proved: the versions that proofs run with, by part.
        today: what has ended before it is marked.
    """
    lines = [
        "# Until when",
        "",
        "The last day on which its makers fix a version. Previews and inspections name what runs",
        "or is declared after it. Written by `make facts` from `components/settings/support.yaml`.",
    ]
    for part, ends in support().items():
        lines += ["", f"## {TITLES[part]}", "", "| version | last day | proofs run with |"]
        lines.append("| --- | --- | --- |")
        for version, last in ends.last.items():
            named = [one for one in proved.get(part, ()) if _is(part, one, version)]
            state = f"{last}, ended" if last < today else f"{last}"
            lines.append(f"| {version} | {state} | {', '.join(named)} |")
        lines += ["", f"Source: {ends.source}."]
    return "\n".join(lines) + "\n"


def _is(part: str, version: str, key: str) -> bool:
    found = end(part, version)
    return found is not None and found.version == key


def documents(root: Path) -> Iterator[Path]:
    """Yield the documents that may claim versions."""
    yield from (root / "README.md", root / "SECURITY.md")
    yield from (path for path in sorted((root / "docs").glob("*.md")) if path.name not in SILENT)


def overdue(root: Path, today: date) -> list[str]:
    """Return the lines of documents that name a version that has ended, without the word "ended".

    Every version that a document names counts as one that it claims to work with.
    """
    found = []
    for path in documents(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for part, version in claims(line):
                if "ended" not in line and (gone := ended(part, version, today)):
                    place = f"{path.relative_to(root)}:{number}"
                    found.append(f"{place}: {part} {version}: {gone}")
    return found


def claims(line: str) -> Iterator[tuple[str, str]]:
    """Yield part and version of each version that a line names."""
    for part, pattern in CLAIMS.items():
        for match in re.finditer(pattern, line):
            yield part, match[1]
