"""The release is rehearsed: what the workflow does before it signs and publishes."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest

from gpu_cluster.commands.files import ROOT
from gpu_rules.command import VERSION
from maintenance import rehearsal
from maintenance.release import NOTES
from maintenance.version import declared

PACKAGES = ("gpu_cluster", "gpu_cluster_lab", "gpu_rules")


def test_the_workflow_publishes_the_text_that_the_release_writes() -> None:
    assert f"--notes-file dist/{NOTES}" in rehearsal.WORKFLOW.read_text(encoding="utf-8")
    assert declared() == VERSION


@pytest.mark.slow
@pytest.mark.promise("`make rehearse-release` makes and checks the files of a release.")
def test_a_release_can_be_made_up_to_its_signature(tmp_path: Path) -> None:
    made = subprocess.run(["make", "venv-site/.complete"], cwd=ROOT, check=False)
    if made.returncode:
        pytest.skip("mkdocs can't be had: make venv-site/.complete fails")
    rehearsal.rehearse(tmp_path / "clone", tmp_path / "output")
    dist = tmp_path / "clone" / "dist"
    name, version = f"gpu-cluster-v{declared()}", declared()
    assert {path.name for path in dist.iterdir()} == {
        "RELEASE.md",
        "SHA256SUMS",
        f"{name}.tar.gz",
        f"{name}.cdx.json",
        f"{name}-site.tar.gz",
        f"{name}-constraints.txt",
        *(f"{package}-{version}.tar.gz" for package in PACKAGES),
        *(f"{package}-{version}-py3-none-any.whl" for package in PACKAGES),
    }
    sums = dict(line.split()[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    for file, digest in sums.items():
        assert hashlib.sha256((dist / file).read_bytes()).hexdigest() == digest
    assert (dist / NOTES).read_text().startswith("### Added\n")
    with tarfile.open(dist / f"{name}-site.tar.gz") as site:
        assert f"{version}/index.html" in site.getnames()
