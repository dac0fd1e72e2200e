"""The version of this project: pyproject.toml's, and the tag's if the commit is a release."""

from __future__ import annotations

import subprocess
import tomllib

from gpu_cluster.commands.files import ROOT


def declared() -> str:
    """Return the version in pyproject.toml, such as 0.1.0."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def tagged() -> str:
    """Return the version of the tag `v*` at the current commit; empty without one."""
    command = ["git", "describe", "--tags", "--exact-match", "--match", "v[0-9]*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip().removeprefix("v")
