"""Program of `make rehearse-release`: do all that the workflow `release` does before it publishes.

A clone gets a dated changelog and the version's tag. `make release` runs there as in the workflow's
job `build`, then the step of the job `publish` that compares the sums. Nothing is published, and
nothing of this checkout changes but ``dist/``, which gets the files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from gpu_cluster.base import yaml_file
from gpu_cluster.commands.files import ROOT
from maintenance.release import DIST, NOTES
from maintenance.version import declared

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
AUTHOR = ("-c", "user.name=rehearsal", "-c", "user.email=rehearsal@example.org")
ENVIRONMENTS = {"venv": "requirements.lock", "venv-site": "requirements-site.lock"}
"""Environments that the clone takes from this checkout, each with the lock it is made from."""


def comparison() -> str:
    """Return the script of the workflow's step that compares the sums."""
    jobs = yaml_file.read(WORKFLOW).value["jobs"]
    (script,) = [
        str(step["run"]) for step in jobs["publish"]["steps"] if "SUMS" in step.get("env", {})
    ]
    return script


def rehearse(clone: Path, output: Path) -> None:
    """Make the release in a clone, as the workflow's jobs do up to the signature.

    Args:
        clone: Path of the clone, which is made.
        output: File that gets the outputs of the step, as GITHUB_OUTPUT does.
    """

    def run(*command: str | Path, folder: Path = clone, **more: str) -> None:
        subprocess.run(command, cwd=folder, env={**os.environ, **more}, check=True)

    run("git", "clone", "--quiet", ROOT, clone, folder=ROOT)
    for name, lock in ENVIRONMENTS.items():
        (clone / name).symlink_to(ROOT / name)
        # `make` must not install the environment again.
        os.utime(clone / lock, (0, 0))
    make = ("make", "--no-print-directory")
    run(*make, "changelog")
    run("git", *AUTHOR, "commit", "--quiet", "--all", "--message", f"Release {declared()}")
    run("git", "tag", f"v{declared()}")
    run(*make, "release")
    run(*make, "--silent", "release-sums", GITHUB_OUTPUT=str(output))
    sums = output.read_text().strip().removeprefix("sums=")
    # GitHub's runner starts a shell step with `bash -e`, too.
    run("bash", "-e", "-c", comparison(), folder=clone / "dist", SUMS=sums)


def main() -> None:
    """Rehearse the release of the current commit, and print its text and its files."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        rehearse(clone, Path(folder) / "output")
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(clone / "dist", DIST)
    print((DIST / NOTES).read_text(encoding="utf-8"))
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size:>10} {path.name}")
    print(f"rehearsed: v{declared()}, up to the signature; nothing was published")


if __name__ == "__main__":
    main()
