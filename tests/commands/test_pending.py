"""Tests of operations that a killed engine left unfinished, with the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pulumi import automation

from gpu_cluster.commands.engine import settle, stale
from gpu_cluster.commands.state import export_state, import_state

pytestmark = pytest.mark.slow

PROGRAM = """\
import os
import pulumi
import pulumi_command
line = os.environ["TEST_LINE"]
secret = pulumi.Output.secret("canary-87")
pulumi_command.local.Command("one", create=line, update=line, stdin=secret)
"""
SLOW = "touch begun; sleep 60"
STACK: Any = SimpleNamespace(embedded=False)
"""Fake stack that runs on no embedded cluster."""


@pytest.fixture
def selected(
    tmp_path: Path, pulumi_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> automation.Stack:
    """Create a Pulumi stack with one command."""
    monkeypatch.setenv("PATH", pulumi_env["PATH"])
    (tmp_path / "Pulumi.yaml").write_text("name: pending\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)
    environment = {**pulumi_env, "TEST_LINE": "true"}
    workspace = automation.LocalWorkspace(work_dir=str(tmp_path), env_vars=environment)
    return automation.Stack.create_or_select(f"t{os.getpid()}-{tmp_path.name}", workspace)


def pending(selected: automation.Stack) -> list[str]:
    """Return the kinds of the unfinished operations in the state."""
    operations = (export_state(selected).deployment or {}).get("pending_operations") or []
    return [operation["type"] for operation in operations]


def killed(selected: automation.Stack) -> None:
    """Kill the engine of an `up` as soon as the command runs."""
    folder = Path(selected.workspace.work_dir)
    (folder / "begun").unlink(missing_ok=True)
    process = subprocess.Popen(
        ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--stack", selected.name],
        cwd=folder,
        env={**selected.workspace.env_vars, "TEST_LINE": SLOW},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not (folder / "begun").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    selected.cancel()  # Remove the lock of the killed engine.


@pytest.mark.promise("After a killed `up` at most one later run refreshes.")
def test_unfinished_operations_are_settled_once(selected: automation.Stack) -> None:
    killed(selected)
    assert pending(selected) == ["creating"]
    # The state contains no resource for an unfinished creation, so a refresh would read nothing.
    assert not stale(STACK, export_state(selected))
    assert not settle(selected, STACK)
    assert pending(selected) == []
    selected.up()

    killed(selected)
    assert pending(selected) == ["updating"]
    assert stale(STACK, export_state(selected))
    assert settle(selected, STACK)
    # A pending update stays in the state until a run refreshes.
    assert pending(selected) == ["updating"]
    selected.up(refresh=True)
    assert pending(selected) == []
    assert not settle(selected, STACK)
    selected.destroy(remove=True)


@pytest.mark.promise("A state that a command exports and imports keeps its secrets encrypted.")
def test_the_state_is_read_and_written_with_its_secrets_encrypted(
    selected: automation.Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected.up()
    exported = export_state(selected)
    assert "ciphertext" in json.dumps(exported.deployment)
    assert "canary-87" not in json.dumps(exported.deployment)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    seen: list[str] = []
    run = selected.workspace.pulumi_command.run

    def watched(*given: Any) -> Any:
        seen.extend(path.read_text() for path in (tmp_path / "scratch").iterdir())
        return run(*given)

    monkeypatch.setattr(selected.workspace.pulumi_command, "run", watched)
    import_state(selected, exported)
    assert len(seen) == 1
    assert "canary-87" not in seen[0]
    assert not list((tmp_path / "scratch").iterdir())
    # The import encrypts again; the next run shows that it lost no value.
    assert selected.up().summary.resource_changes == {"same": 2}
    selected.destroy(remove=True)
