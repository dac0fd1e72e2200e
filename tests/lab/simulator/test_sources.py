"""Each fake host program names the upstream file that it follows, or is marked unverified."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FAKES = (
    "embedded/gpu_cluster_lab/simulator/hosts/fakes",
    "embedded/gpu_cluster_lab/simulator/hosts/fixtures",
    "embedded/gpu_cluster_lab/simulator/hosts/fixtures_rpm",
    "embedded/gpu_cluster_lab/simulator/hosts/fixtures_plain",
    "tests/proofs/hosts/fake_programs",
)
# Pattern of a cited source: a repository with a release or commit, or a page about a program that
# has no public source code.
SOURCE = re.compile(r"\bSources?(?: \([^)]*\))?: .*?\d", re.DOTALL)
UNVERIFIED = re.compile(r"\bUnverified: ")


def is_fake(path: Path) -> bool:
    """Check that a file is a fake program or a systemd unit; other files are plain settings."""
    return path.suffix == ".service" or path.read_bytes().startswith(b"#!")


def header(text: str) -> str:
    """Return the comment at the top of a shell script, or the docstring of a Python program."""
    if "python" in text.partition("\n")[0]:
        return text.split('"""')[1]
    lines = text.removeprefix("#!/bin/sh\n").removeprefix("#!/bin/bash\n").splitlines()
    comment = []
    for line in lines:
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return " ".join(comment)


FILES = [
    str(path.relative_to(ROOT))
    for folder in FAKES
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file() and is_fake(path)
]


def test_the_fakes_are_found() -> None:
    assert len(FILES) >= 35


@pytest.mark.parametrize("name", FILES)
def test_a_fake_names_its_source_or_is_marked_unverified(name: str) -> None:
    said = header((ROOT / name).read_text())
    assert SOURCE.search(said) or UNVERIFIED.search(said), said
