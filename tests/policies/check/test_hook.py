"""The checker works as a hook of the program pre-commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.fixtures.programs import run_program
from tests.policies.check.running import ROOT
from tests.policies.check.samples import BAD, GOOD

LIMIT = 300
"""Time limit of one command in seconds; the first run installs the checker."""
INSTALLED = ("components", "policies", "pyproject.toml", ".pre-commit-hooks.yaml")


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with test settings for git and a separate pre-commit cache."""
    own = folder.parent / "home"
    return run_program(
        command,
        cwd=folder,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
            "PRE_COMMIT_HOME": str(own / "pre-commit"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "test",
            "GIT_AUTHOR_EMAIL": "test@example.com",
            "GIT_COMMITTER_NAME": "test",
            "GIT_COMMITTER_EMAIL": "test@example.com",
        },
        stderr=subprocess.STDOUT,
        timeout=LIMIT,
    )


def _repository(folder: Path) -> str:
    _run(folder, "git", "init", "-q", ".")
    _run(folder, "git", "add", "-A")
    done = _run(folder, "git", "commit", "-q", "-m", "first")
    assert done.returncode == 0, done.stdout
    return _run(folder, "git", "rev-parse", "HEAD").stdout.strip()


def test_the_hook_is_defined_as_pre_commit_wants_it() -> None:
    done = run_program(
        [sys.executable, "-m", "pre_commit", "validate-manifest", ".pre-commit-hooks.yaml"],
        cwd=ROOT,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.full
def test_pre_commit_installs_the_hook_and_stops_a_commit(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    for name in INSTALLED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name,
                rules / name,
                ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
            )
        else:
            shutil.copy2(ROOT / name, rules / name)
    revision = _repository(rules)
    project = tmp_path / "project"
    # The hook must not import the folder `policies` of the user's project in place of the package.
    (project / "policies").mkdir(parents=True)
    (project / "policies" / "pod.yaml").write_text(GOOD)
    (project / "readme.md").write_text("a: [")
    hooks = {"repos": [{"repo": str(rules), "rev": revision, "hooks": [{"id": "gpu-rules"}]}]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(hooks))
    _repository(project)
    command = (sys.executable, "-m", "pre_commit", "run", "--all-files")
    passed = _run(project, *command)
    assert (passed.returncode, "Passed" in passed.stdout) == (0, True), passed.stdout
    (project / "pod.yaml").write_text(BAD)
    _run(project, "git", "add", "-A")
    stopped = _run(project, *command)
    assert stopped.returncode == 1
    assert "exit code: 1" in stopped.stdout
    assert "pod.yaml:9: mandatory GPU001" in stopped.stdout
