"""Program of `make release`: write the files of a release to ``dist/``, from the current commit.

The source archive is made by `git archive` with the commit's time, so everybody who checks out the
tag gets the same bytes. The Python packages are built from that archive alone. The other files are
the packages' constraints, the site, the bill of materials, the text of the release, and the SHA-256
sums of all.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_cluster.commands.files import ROOT
from gpu_cluster.commands.release_notes import UNRELEASED
from maintenance import changelog
from maintenance.constraints import constraints
from maintenance.sbom import bom
from maintenance.site import build as site
from maintenance.version import declared, tagged

DIST = ROOT / "dist"
NOTES = "RELEASE.md"
"""Text of the release, which the workflow publishes."""
PACKAGES = {"gpu_rules": "policies", "gpu_cluster": ".", "gpu_cluster_lab": "embedded"}
"""Folder of each Python package; a package stands after those that it depends on."""


def _run_git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def _run_python(folder: Path, *arguments: str | Path, python: str | Path = sys.executable) -> str:
    """Run Python in a folder and return what it prints; exit with its output if it fails."""
    made_at = _run_git("show", "--no-patch", "--format=%ct", "HEAD").decode().strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": made_at}
    # Otherwise the packages of a working tree could be checked in place of those of the wheels.
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"release: {' '.join(map(str, arguments))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def version_of_release() -> str:
    """Return the version that the commit's tag releases; empty if there is no tag.

    Raises:
        SystemExit: There are changes without a commit, or versions contradict each other.
    """
    if changed := _run_git("status", "--porcelain").decode():
        sys.exit(f"release: found changes ({changed.split()[1]} …); wanted: a commit; cure: commit")
    version = tagged()
    if version and version != declared():
        sys.exit(
            f"release: found tag v{version}; wanted: v{declared()}, the version in pyproject.toml; "
            "cure: raise `version` there, or name the tag after it"
        )
    return version


def write_addresses(file: Path, environment: Mapping[str, str]) -> None:
    """Add the repository's address to a project file, in a run of a forge that names it.

    The wheel then has it, and so has the schema of the component package.
    """
    server, name = environment.get("GITHUB_SERVER_URL"), environment.get("GITHUB_REPOSITORY")
    if server and name:
        address = json.dumps(f"{server}/{name}")
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"\n[project.urls]\nHomepage = {address}\nRepository = {address}\n")


def build_packages(source: Path, target: Path, version: str) -> None:
    """Build each package's source distribution, and from that its wheel; check both.

    Args:
        source: Folder of the project's files.
        target: Folder that gets the packages.
        version: Version in the project's files.
    """
    for name, folder in PACKAGES.items():
        output = target / name
        _run_python(source / folder, "-m", "build", "--no-isolation", "--outdir", output)
        files = {path.name: path for path in output.iterdir()}
        wheel = f"{name}-{version}-py3-none-any.whl"
        if set(files) != {wheel, f"{name}-{version}.tar.gz"}:
            sys.exit(f"release: found packages {sorted(files)}; wanted: {wheel} and its source")
        for path in files.values():
            path.rename(target / path.name)
        output.rmdir()
    check_wheels(sorted(target.glob("*.whl")), version)


def check_wheels(wheels: Sequence[Path], version: str) -> None:
    """Install wheels in a new environment, and run a command of each of them there.

    The packages that the wheels depend on are those of this environment.
    """
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        _run_python(workspace, "-m", "venv", "--without-pip", "venv")
        python = workspace / "venv" / "bin" / "python"
        pip = ("-m", "pip", "--disable-pip-version-check", "--quiet", "--python", python)
        _run_python(workspace, *pip, "install", "--no-deps", "--no-index", *wheels)
        (packages,) = workspace.glob("venv/lib/python*/site-packages")
        ours = next(path for path in sys.path if path.endswith("site-packages"))
        (packages / "of_this_environment.pth").write_text(f"{ours}\n")
        printed = _run_python(
            workspace, workspace / "venv" / "bin" / "gpu-rules", "--version", python=python
        )
        if printed != f"gpu-rules {version}\n":
            sys.exit(f"release: found {printed!r}; wanted: gpu-rules {version}")
        _run_python(
            workspace, "-c", "from gpu_cluster import GpuCluster, GpuClusterArgs", python=python
        )


def pack_site(version: str) -> bytes:
    """Build the site and return its archive, whose folder is named by the version."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        name = version or site.UNRELEASED
        site.build(Path(folder) / name, name)
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(Path(folder) / name, arcname=name)
    return gzip.compress(packed.getvalue(), mtime=0)


def main() -> None:
    """Write the files of a release; refuse a working tree that differs from the commit."""
    version = version_of_release()
    text = changelog.notes(changelog.FILE.read_text(encoding="utf-8"), version or UNRELEASED)
    name = f"gpu-cluster-{_run_git('describe', '--tags', '--always').decode().strip()}"
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    tar = _run_git("archive", f"--prefix={name}/", "--format=tar", "HEAD")
    (DIST / f"{name}.tar.gz").write_bytes(gzip.compress(tar, mtime=0))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(folder, filter="data")
        write_addresses(Path(folder) / name / "pyproject.toml", os.environ)
        build_packages(Path(folder) / name, DIST, declared())
    (DIST / f"{name}-constraints.txt").write_text(constraints(DIST.glob("*.whl")))
    (DIST / f"{name}-site.tar.gz").write_bytes(pack_site(version))
    (DIST / f"{name}.cdx.json").write_text(json.dumps(bom(), indent=1, sort_keys=True) + "\n")
    (DIST / NOTES).write_text(text, encoding="utf-8")
    files = sorted(DIST.iterdir())
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files
    )
    (DIST / "SHA256SUMS").write_text(sums)
    print(sums, end="")


if __name__ == "__main__":
    main()
