"""The checker works when it is installed from a wheel, without the rest of the project."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fixtures.programs import run_program
from tests.policies.check.packages import copy, install
from tests.policies.check.running import ROOT
from tests.policies.check.samples import GOOD

PROGRAM = """
import sys
sys.path[:] = [sys.argv.pop(1), *(path for path in sys.path if path not in ("", sys.argv[1]))]
sys.argv.pop(1)
for name in ("pulumi", "pulumi_kubernetes", "kr8s", "asyncssh"):
    sys.modules[name] = None
from gpu_rules.command import run
run()
"""
STACKS = sorted(path.name.split(".")[1] for path in ROOT.glob("Pulumi.*.yaml"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed packages of this project."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    copy(source, "components/", "policies/", "pyproject.toml", "LICENSE")
    install(source / "policies", target)
    install(source, target)
    return target


@pytest.mark.parametrize("stack", STACKS)
def test_an_installed_checker_reads_every_committed_stack_file(
    installed: Path, tmp_path: Path, stack: str
) -> None:
    name = f"Pulumi.{stack}.yaml"
    (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "pod.yaml").write_text(GOOD)
    done = run_program(
        [
            sys.executable,
            "-c",
            PROGRAM,
            str(installed),
            str(ROOT),
            "check",
            "pod.yaml",
            "--stack",
            stack,
        ],
        cwd=tmp_path,
        timeout=60,
    )
    # Only the stack file declares the taint of GPU nodes. GPU004, which reports a missing
    # toleration, proves that the stack file was read.
    assert (done.returncode, "mandatory GPU004" in done.stdout) == (1, True), done.stderr
