"""A user's Pulumi program in a folder outside this project."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.fixtures.programs import run_program
from tests.proofs.e2e.project import LIMIT, Project

GPUS = 32


@dataclass
class Program:
    """A Pulumi program in a folder, with its own stack."""

    folder: Path
    stack: str
    environment: dict[str, str]

    def pulumi(self, *arguments: str, succeeds: bool = True, stack: bool = True) -> str:
        """Run `pulumi` with arguments, check whether it succeeds, and return its output."""
        chosen = ("--stack", self.stack) if stack else ()
        done = run_program(
            ["pulumi", *arguments, "--non-interactive", "--color", "never", *chosen],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )
        assert (done.returncode == 0) is succeeds, done.stdout
        return done.stdout

    def output(self, name: str) -> Any:
        return json.loads(self.pulumi("stack", "output", name, "--json"))

    def edit(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the content of the program's Pulumi.yaml."""
        file = self.folder / "Pulumi.yaml"
        program = yaml.safe_load(file.read_text())
        change(program)
        file.write_text(yaml.safe_dump(program, sort_keys=False))


def environment(project: Project, folder: Path) -> dict[str, str]:
    """Return the variables of a person's shell: the toolchain on PATH, and a state of its own.

    The charts are outside the project, so that a path of the project in the state is a fault.
    """
    (folder / "state").mkdir()
    charts = folder / "charts"
    shutil.copytree(project.root / "embedded" / "gpu_cluster_lab" / "simulator" / "charts", charts)
    # The Kubernetes plugin writes a given kubeconfig to a temporary file, and leaves it.
    (folder / "tmp").mkdir()
    kept = {
        **project.shell_environment(),
        "CLUSTER_KUBECONFIG": str(project.kubeconfig),
        "GPU_CHARTS": str(charts),
        "KUBECONFIG": str(folder / "none"),
        "PULUMI_BACKEND_URL": f"file://{folder}/state",
        "PULUMI_HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
    }
    kept.pop("PULUMI_STACK", None)
    return kept
