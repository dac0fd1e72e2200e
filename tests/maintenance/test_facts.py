"""Tests of the scheduled pull request that marks versions whose support has ended.

The pull request must be opened on the day after a version's end of support, not earlier.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from gpu_cluster.settings.support import PAGE, overdue, support, supported

ROOT = Path(__file__).resolve().parents[2]
TREE = (
    *("components", "embedded", "maintenance", "policies"),
    *("docs", "README.md", "SECURITY.md"),
)
SCRIPT = ".github/scripts/propose.sh"
MAKE = """\
#!{python}
import sys
from datetime import date
sys.path.insert(0, {tree!r})
from maintenance.facts import main
sys.exit(main(date.fromisoformat({day!r})))
"""
GH = """\
#!/bin/sh
printf '%s\\n' "$@" >> '{told}'
"""


class Checkout:
    """Copy of the project with a git remote, for running `make facts` on a chosen date.

    A fake `gh` only records its arguments.
    """

    def __init__(self, folder: Path) -> None:
        self.tree, self.programs = folder / "tree", folder / "programs"
        self.told = folder / "told"
        self.programs.mkdir()
        for name in (*TREE, SCRIPT):
            target = self.tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, target)
        self._program("gh", GH.format(told=self.told))
        self.run("git", "init", "--quiet", "--bare", str(folder / "origin"))
        self.run("git", "init", "--quiet", "--initial-branch=main")
        self.run("git", "remote", "add", "origin", str(folder / "origin"))

    def _program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *command: str) -> str:
        identity = ("GIT_AUTHOR", "GIT_COMMITTER")
        environment = {
            **{f"{who}_NAME": "test" for who in identity},
            **{f"{who}_EMAIL": "test@example.com" for who in identity},
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": str(self.programs),
            "GITHUB_RUN_ID": "1",
            "CSAF": "",
        }
        return subprocess.run(
            command, cwd=self.tree, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def facts(self, day: date) -> None:
        """Run `make facts`, which writes the tables of versions, as if `day` were today."""
        text = MAKE.format(python=sys.executable, tree=str(self.tree), day=day.isoformat())
        self._program("make", text)
        self.run("make", "facts")

    def commit(self) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message", "All")


@pytest.mark.slow
@pytest.mark.promise(
    "A version that passes its end of support is marked by a pull request, which names the lines "
    "that still claim it."
)
def test_a_claim_that_passes_its_end_opens_the_change(tmp_path: Path) -> None:
    last = support()["kubernetes"].last
    version = min(supported("kubernetes", date.today()), key=lambda each: last[each])
    checkout = Checkout(tmp_path)
    with (checkout.tree / "README.md").open("a") as readme:
        readme.write(f"It runs on Kubernetes {version}.\n")
    checkout.facts(last[version])
    checkout.commit()
    checkout.run(f"./{SCRIPT}", "facts")
    assert not checkout.told.exists()

    after = last[version] + timedelta(1)
    checkout.facts(after)
    checkout.run(f"./{SCRIPT}", "facts")
    told = checkout.told.read_text()
    assert "pr\ncreate\n" in told
    assert all(line in told for line in overdue(checkout.tree, after))
    assert f"kubernetes {version}: support ended on {last[version]}" in told
    assert f"| {version} | {last[version]}, ended |" in checkout.run("git", "show", f"@:{PAGE}")
    heads = checkout.run("git", "ls-remote", "--heads", "origin")
    assert heads.endswith("refs/heads/facts/1\n")
    assert checkout.run("git", "show", "--name-only", "--format=") == f"{PAGE}\n"
