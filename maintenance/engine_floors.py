"""Write the table of weaknesses of containerd and runc, from the Go vulnerability database.

The database is a git directory of the repository golang/vulndb, whose documents are in the format
OSV (`data/osv`). Only ranges with a fix are used: a range without one would call each later version
weak, and only series that their makers have ended have such ranges.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from gpu_rules.facts.engine_floors import Weakness, read
from gpu_rules.facts.floors import parse
from maintenance.transitions import git_output

REPOSITORY = "golang/vulndb"
FOLDER = "data/osv"
MODULES = {
    "github.com/containerd/containerd": ("containerd", ""),
    "github.com/containerd/containerd/v2": ("containerd", "2.0.0"),
    "github.com/opencontainers/runc": ("runc", ""),
}
"""By Go module: its software, and the first version of the module; empty: the first of all."""
BYTES = 1024 * 1024
"""Maximum size of a document."""
_NUMBERS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9}){2})(?:-[0-9A-Za-z.-]{1,40})?")


class DocumentError(ValueError):
    """A document of the database that is written in an unknown form."""

    cure: ClassVar[str] = (
        "extend what `make facts` reads, or give it an earlier copy of golang/vulndb"
    )


def document(text: str, changed: str) -> Iterator[Weakness]:
    """Yield the weaknesses in an OSV document.

    Args:
        text: The document, as JSON.
        changed: Date of its last change, ISO 8601.

    Raises:
        DocumentError: The document has an unknown form.
    """
    if len(text) > BYTES:
        raise DocumentError(f"{len(text)} characters, wanted at most {BYTES}")
    try:
        entry: Any = json.loads(text)
        names = entry["aliases"]
        advisory = next((name for name in names if name.startswith("GHSA-")), "")
        if entry.get("withdrawn") or not advisory:
            return
        cves = tuple(sorted(name for name in names if name.startswith("CVE-")))
        for affected in entry["affected"]:
            software, first = MODULES.get(affected["package"]["name"], ("", ""))
            for events in (each["events"] for each in affected["ranges"] if software):
                for since, fixed in _ranges(events):
                    yield Weakness(software, since or first, fixed, advisory, changed, cves)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise DocumentError(f"{type(error).__name__}: {error}") from error


def _ranges(events: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the first affected and the fixed version of each range that has a fix."""
    since = ""
    for event in events:
        ((kind, version),) = event.items()
        match = _NUMBERS.fullmatch(version)
        if kind not in ("introduced", "fixed") or (match is None and version != "0"):
            raise DocumentError(f"unknown event {kind} {version!r}")
        number = match[1] if match else ""
        if kind == "introduced":
            since = number
        # A range between two candidates of one release has no release in it.
        elif parse(since) < parse(number):
            yield since, number


def table(repositories: Path) -> str:
    """Return the table as JSON text, with one entry per line.

    Args:
        repositories: Folder with a git directory of each repository, as `OWNER+NAME/repo`.

    Raises:
        OSError: The repository can't be read.
        ValueError: A document has an unknown form.
    """
    git = repositories / REPOSITORY.replace("/", "+") / "repo"
    named = ("grep", "-l", "-F", *(word for name in MODULES for word in ("-e", f'"{name}"')))
    listed = git_output(git, *named, "HEAD", "--", FOLDER).decode().split()
    entries: list[Weakness] = []
    for place in sorted(listed):
        path = place.removeprefix("HEAD:")
        changed = git_output(git, "log", "-1", "--format=%cs", "HEAD", "--", path).decode().strip()
        try:
            entries += document(git_output(git, "show", f"HEAD:{path}").decode(), changed)
        except ValueError as error:
            raise DocumentError(f"{path}: {error}") from error
    entries.sort(key=lambda each: (each.software, parse(each.fixed), each.date, each.advisory))
    rows = ",\n".join("  " + json.dumps(asdict(entry)) for entry in entries)
    source = f"{REPOSITORY}, OSV; written by `make facts REPOSITORIES=<folder>`"
    text = f'{{\n "source": {json.dumps(source)},\n "weaknesses": [\n{rows}\n ]\n}}\n'
    read(text)
    return text
