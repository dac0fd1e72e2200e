"""End-of-support dates of software versions, and the versions that the documentation names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, StrictStr, TypeAdapter

from gpu_cluster.base import yaml_file
from gpu_cluster.base.model import Model
from gpu_rules.facts.transitions import histories, parse

FILE = Path(__file__).with_name("support.yaml")
PAGE = "docs/support.md"
ShortText = Annotated[StrictStr, Field(min_length=1, max_length=200)]

REBUILDS = {"rocky": "rhel", "almalinux": "rhel", "ol": "rhel"}
"""Distributions whose end-of-support dates are those of another distribution."""
TITLES = {
    "kubernetes": "Kubernetes",
    "containerd": "containerd",
    "driver": "NVIDIA driver branches",
    "debian": "Debian",
    "ubuntu": "Ubuntu",
    "rhel": "RHEL, Rocky, AlmaLinux, Oracle Linux",
    "amzn": "Amazon Linux",
    "gpu-operator": "GPU Operator",
    "node-feature-discovery": "Node Feature Discovery",
    "crio": "CRI-O",
    "nvidia-device-plugin": "Device plugin",
    "dra-driver-nvidia-gpu": "DRA driver",
    "container-toolkit": "Container toolkit",
    "docker": "Docker",
    "hami": "HAMi",
}
CLAIMS: Mapping[str, str] = {
    # Two kinds of versions are skipped: citations of a source ("kubernetes v1.34") and minimum
    # versions ("1.34 or later", "since 1.31").
    "kubernetes": r"(?<![\d.])(?<!since )(?<!kubernetes v)(1\.[3-9]\d)(?:\.\d+)?"
    r"(?!\d|\.\d| or later| on)",
    "containerd": r"containerd[-, |a-z`]{1,20}v?([12]\.\d+)",
    "driver": r"(?:[Dd]river|[Bb]ranch|R)[ |]?([3-9]\d\d)\b(?! or later)",
    "debian": r"Debian (\d+)",
    "ubuntu": r"Ubuntu (\d+\.\d+)",
    "rhel": r"(?:RHEL|Rocky|AlmaLinux|Oracle Linux) (\d+)",
    "amzn": r"Amazon Linux (\d+)",
    "gpu-operator": r"(?:GPU Operator|[Oo]perator|gpu-operator) v?(2\d\.\d+)(?! or later)",
    "node-feature-discovery": r"(?:NFD|Node Feature Discovery) v?(0\.\d+)(?! or later)",
    "crio": r"CRI-O v?(1\.\d+)(?! or later)",
}
"""Regular expressions that find a version of each software in the documents."""
PATCHES: Mapping[str, str] = {
    "kubernetes": r"(?<![\d.])v?(1\.[3-9]\d\.\d+)(?![\d.])",
    "containerd": r"containerd[-, |`:v]{1,5}([12]\.\d+\.\d+)",
    "gpu-operator": r"(?<![\d.])v(2[5-9]\.\d+\.\d+)(?![\d.])",
    "nvidia-device-plugin": r"(?<![\d.])v?(0\.2\d\.\d+)(?![\d.])",
}
"""Regular expressions that find a patch release of each software in advice."""
_SEEN = re.compile(r"\bended\b|\bran\b|came with|GPU_CLUSTER_KUBERNETES=|KUBERNETES=| or later")
"""Words of a line that reports what ran, names a version of the lab, or a minimum version."""
SILENT = (
    "promises.md",
    "version-rules.md",
    "benchmarks.md",
    "rules.md",
    "support.md",
    "settings.md",
    "errors.md",
    "facts.md",
)
"""Pages that are not searched for versions.

They are generated from the code, report measurements of one day, name the sources of the rules, or
contain the table of end-of-support dates. Decisions tell what was true on their day.
"""


class Ends(Model):
    """End-of-support dates of one software's versions, and the source of these dates.

    Attributes:
        last: Last day of each version.
        open: Versions that are supported, without a published last day.
    """

    source: ShortText
    last: dict[ShortText, date] = Field(default_factory=dict, max_length=100)
    open: tuple[ShortText, ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The last day of support of one version, and the source of this date."""

    version: str
    last: date
    source: str

    def __str__(self) -> str:
        """Return the end of support as text that completes a message."""
        return f"support ended on {self.last} ({self.source})"


@cache
def support() -> Mapping[str, Ends]:
    """Return the end-of-support dates in support.yaml, by software."""
    adapter = TypeAdapter(dict[ShortText, Ends])
    return adapter.validate_python(yaml_file.read(FILE).value)


def end(software: str, version: str) -> End | None:
    """Return the end of support of a version such as `v1.34.4`, or None if the table has no entry.

    The longest matching prefix in the table applies: `24.04.1` matches `24.04`, and `595.91.07`
    matches `595`.
    """
    ends = support().get(REBUILDS.get(software, software))
    match = re.match(r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){0,3})", version[:40])
    numbers = match[1].split(".") if match else []
    for count in range(len(numbers), 0, -1):
        key = ".".join(numbers[:count])
        if ends is not None and key in ends.last:
            return End(key, ends.last[key], ends.source)
    return None


def ended(software: str, version: str, today: date) -> End | None:
    """Return the end of support of a version if its last day is over, else None."""
    last_day = end(software, version)
    return last_day if last_day is not None and last_day.last < today else None


def supported(software: str, today: date) -> list[str]:
    """Return the versions of a software whose last day of support is not over."""
    ends = support()[REBUILDS.get(software, software)]
    return [*(version for version in ends.last if ends.last[version] >= today), *ends.open]


def is_unknown_system(system: str, version: str) -> bool:
    """Return whether a version of an operating system is missing, such as an interim release."""
    ends = support().get(REBUILDS.get(system, system))
    return ends is not None and end(system, version) is None


def page(proved: Mapping[str, tuple[str, ...]], today: date) -> str:
    """Return the Markdown page with all end-of-support dates.

    Args:
        proved: Versions that the project's proofs run with, by software.
        today: Date; versions whose support ended earlier are marked.
    """
    lines = [
        "# Until when",
        "",
        "This page lists the last day on which each version gets fixes. Previews and inspections",
        "name software that runs or is declared after that day. `make facts` writes the page from",
        "`components/gpu_cluster/settings/support.yaml`.",
    ]
    for software, ends in support().items():
        lines += ["", f"## {TITLES[software]}", ""]
        if not ends.last:
            lines.append(f"No last day is published. Source: {ends.source}.")
            continue
        lines += ["| version | last day | proofs run with |", "| --- | --- | --- |"]
        for version, last in ends.last.items():
            proofs = [
                proof for proof in proved.get(software, ()) if _is_version(software, proof, version)
            ]
            state = f"{last}, ended" if last < today else f"{last}"
            lines.append(f"| {version} | {state} | {', '.join(proofs)} |")
        lines += [
            f"| {version} | supported, no last day is published |  |" for version in ends.open
        ]
        lines += ["", f"Source: {ends.source}."]
    return "\n".join(lines) + "\n"


def _is_version(software: str, version: str, key: str) -> bool:
    version_end = end(software, version)
    return version_end is not None and version_end.version == key


def documents(root: Path) -> Iterator[Path]:
    """Yield the paths of the documents that are searched for versions."""
    yield from (root / "README.md", root / "SECURITY.md")
    for path in sorted((root / "docs").rglob("*.md")):
        if path.name not in SILENT and path.parent.name != "decisions":
            yield path


def overdue(root: Path, today: date) -> list[str]:
    """Return the document lines that name an unsupported version without the word "ended".

    Every version that a document names counts as a version that this project supports.
    """
    problems = []
    for path in documents(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for software, version in claims(line):
                if "ended" not in line and (gone := ended(software, version, today)):
                    place = f"{path.relative_to(root)}:{number}"
                    problems.append(f"{place}: {software} {version}: {gone}")
    return problems


def advice(root: Path) -> Iterator[Path]:
    """Yield the paths of the files that tell a reader which version to declare."""
    yield from sorted(root.glob("Pulumi*.yaml"))
    yield root / "README.md"
    for folder in ("how-to", "tutorial"):
        yield from sorted((root / "docs" / folder).glob("*.md"))
    yield from (root / "docs/reference" / name for name in ("settings.md", "errors.md"))


def outdated(root: Path) -> list[str]:
    """Return the lines of advice that name an older patch release than the facts know."""
    problems = []
    for path in filter(Path.is_file, advice(root)):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for software, version in () if _SEEN.search(line) else _patches(line):
                history = histories()[software]
                newest = history.newest(history.series(version))
                if parse(newest) > parse(version):
                    place = f"{path.relative_to(root)}:{number}"
                    problems.append(f"{place}: {software} {version}: {newest} is released")
    return problems


def _patches(line: str) -> Iterator[tuple[str, str]]:
    for software, pattern in PATCHES.items():
        for match in re.finditer(pattern, line):
            yield software, match[1]


def claims(line: str) -> Iterator[tuple[str, str]]:
    """Yield the software and version of each version that a line names."""
    for software, pattern in CLAIMS.items():
        for match in re.finditer(pattern, line):
            yield software, match[1]
