"""A release that does not become ready: the run names the cause, and the next run heals."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lab.simulator import faults, set_fault
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways

pytestmark = pytest.mark.full

NODES = ("gpu-1", "gpu-2", "gpu-3")
LIMIT = 40
"""Seconds after which Helm ends; a cause is printed after two readings."""


@pytest.fixture
def impatient(project: Project) -> Iterator[Project]:
    """Yield a stack whose nodes lack NVIDIA's runtime, and whose release soon counts as failed."""
    file = project.root / "components" / "release" / "component.py"
    text = file.read_text()
    project.write(ways.declared(project.stack, "device-plugin"))
    file.write_text(re.sub(r"^TIMEOUT = \d+$", f"TIMEOUT = {LIMIT}", text, flags=re.MULTILINE))
    for node in NODES:
        set_fault(project.stack, node, faults.RUNTIME_NOT_CONFIGURED)
    yield project
    file.write_text(text)
    for node in NODES:
        set_fault(project.stack, node)
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout


@pytest.mark.promise(
    "A run that waits for the GPU software's release names the pods that do not run and why, while "
    "it waits and when it fails."
)
def test_a_release_that_does_not_become_ready_names_the_cause(impatient: Project) -> None:
    done = impatient.command("up")
    assert done.returncode != 0
    lines = done.stdout.splitlines()
    waits = [line for line in lines if line.startswith("release nvidia-device-plugin/")]
    assert len(waits) == 1, done.stdout
    assert "waits: pods " in waits[0]
    assert "FailedCreatePodSandBox" in waits[0]
    errors = [line for line in lines if line.startswith("error: ")]
    assert "is not ready: pods " in errors[0], done.stdout
    assert "configure this runtime on the node" in errors[0]
    assert 'no runtime for "nvidia"' in lines[-1], done.stdout
    for node in NODES:
        set_fault(impatient.stack, node)
    assert figures(impatient.up())[:2] == (24, 24)
