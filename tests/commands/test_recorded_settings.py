"""The engine keeps the settings of the last run that succeeded, by which a preview names edits."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpu_cluster.change.edits import recorded_settings
from gpu_cluster.change.lines import StackFile
from gpu_cluster.cluster import SETTINGS, GpuCluster
from gpu_cluster.commands.preview import edits_since
from tests.components.change.world import base
from tests.fixtures.programs import run_program

PROGRAM = f"""\
import os
import pulumi
import pulumi_command
class Cluster(pulumi.ComponentResource):
    def __init__(self):
        super().__init__("{GpuCluster.TYPE}", "gpu-cluster")
        made = pulumi_command.local.Command(
            "one", create=os.environ["TEST_RUN"], opts=pulumi.ResourceOptions(parent=self)
        )
        self.register_outputs({{"done": made.stdout, "{SETTINGS}": os.environ["TEST_SETTINGS"]}})
Cluster()
"""


@pytest.mark.slow
def test_a_failed_run_and_a_preview_keep_the_settings_of_the_last_that_succeeded(
    tmp_path: Path, pulumi_env: dict[str, str]
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: gpu-cluster\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    (tmp_path / "state").mkdir()
    backend = {"PULUMI_BACKEND_URL": f"file://{tmp_path}/state"}

    def pulumi(*words: str, run: str = "true", gpus: int = 8) -> subprocess.CompletedProcess[str]:
        settings = {**base(), "gpus": gpus}
        given = {"TEST_RUN": run, "TEST_SETTINGS": recorded_settings(settings)}
        return run_program(
            ["pulumi", *words, "--stack", "dev", "--non-interactive"],
            cwd=tmp_path,
            env={**pulumi_env, **backend, **given},
            timeout=300,
        )

    def edited() -> list[tuple[str, str, str]]:
        exported = json.loads(pulumi("stack", "export").stdout)["deployment"]
        file = StackFile(settings={**base(), "gpus": 9})
        found = edits_since(exported["resources"], file)
        return [(each.path, each.was, each.now) for each in found or ()]

    assert pulumi("stack", "init").returncode == 0
    first = pulumi("up", "--yes", "--skip-preview")
    assert first.returncode == 0, first.stdout + first.stderr
    assert edited() == [("gpus", "8", "9")]
    assert pulumi("preview", run="echo 1", gpus=7).returncode == 0
    assert edited() == [("gpus", "8", "9")]
    assert pulumi("up", "--yes", "--skip-preview", run="exit 1", gpus=6).returncode != 0
    assert edited() == [("gpus", "8", "9")]
    again = pulumi("up", "--yes", "--skip-preview", "--expect-no-changes", gpus=5)
    assert again.returncode == 0, again.stdout + again.stderr
    assert edited() == [("gpus", "5", "9")]
