"""Hooks around an operation, by the real engine: they run while it waits and after it failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pulumi import automation

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """\
import os
import pulumi
import pulumi_command
from gpu_cluster import hooks
from gpu_cluster.release.waits import Waiting

watch = Waiting("a/b", lambda: ["pod c: no runtime"], pulumi.log.info, every=0.05)

async def failed():
    for line in await watch.failed():
        pulumi.log.error(f"release is not ready: {line}")

async def after():
    await watch.end()
    pulumi.log.info("the watch has ended")

pulumi_command.local.Command(
    "one",
    create=os.environ["TEST_LINE"],
    update=os.environ["TEST_LINE"],
    opts=pulumi.ResourceOptions(hooks=hooks.around("one", watch.start, after, failed)),
)
"""


def test_causes_are_said_while_an_operation_waits_and_when_it_fails(
    tmp_path: Path, pulumi_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", pulumi_env["PATH"])
    (tmp_path / "Pulumi.yaml").write_text("name: hooks\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    environment = {**pulumi_env, "PYTHONPATH": str(ROOT), "TEST_LINE": "sleep 2; false"}
    workspace = automation.LocalWorkspace(work_dir=str(tmp_path), env_vars=environment)
    stack = automation.Stack.create_or_select(f"t{os.getpid()}-{tmp_path.name}", workspace)
    said: list[str] = []
    with pytest.raises(automation.CommandError) as failure:
        stack.up(on_output=said.append)
    output = "\n".join(said)
    assert output.count("release a/b waits: pod c: no runtime") >= 1, output
    assert "release is not ready: pod c: no runtime" in str(failure.value) + output
    assert "the watch has ended" not in output
    workspace.env_vars["TEST_LINE"] = "sleep 1"
    said.clear()
    stack.up(on_output=said.append)
    output = "\n".join(said)
    assert "release a/b waits: pod c: no runtime" in output
    assert "the watch has ended" in output
    assert "is not ready" not in output
