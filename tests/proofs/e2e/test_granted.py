"""Tests that `up` verifies that GPUs work, instead of trusting the stack file.

Each fault alone must make `up` fail with an error that names the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.proofs.e2e.project import DROP_IN, Project, figures

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def stack(project: Project) -> Iterator[None]:
    """Bring the stack up for the tests of this module, and destroy it afterwards."""
    assert figures(project.up())[:2] == (32, 32)
    yield
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout


@pytest.fixture
def healed(project: Project) -> Iterator[None]:
    """Check after the test that one `up` without the fault validates all GPUs again."""
    yield
    validated, declared, _ = figures(project.up())
    assert (validated, declared) == (32, 32)


def fails(project: Project, node: str, *texts: str, **environment: str) -> None:
    before = project.file.read_text()
    project.edit(lambda cluster: cluster["validation"].update(timeoutSeconds=20))
    done = project.command("up", **environment)
    project.file.write_text(before)
    assert done.returncode == 1, done.stdout
    assert re.search(r"up: failed after \d+ s", done.stdout.splitlines()[-1])
    for text in (f"node {node}: ", *texts):
        assert text in done.stdout, done.stdout


def test_one_unhealthy_gpu_fails_the_run(project: Project, healed: None) -> None:
    project.fault("gpu-3", "unhealthy-gpus=1")
    try:
        fails(project, "gpu-3", "7 of 8 GPUs allocatable")
    finally:
        project.fault("gpu-3")


def test_a_log_without_test_passed_fails_the_run(project: Project, healed: None) -> None:
    project.fault("gpu-2", "validation-silent")
    # A validated node is only validated again for a reason. A new timeout is no reason, but a new
    # image is.
    project.edit(lambda cluster: cluster["validation"].update(image="example.com/cuda:vectoradd"))
    try:
        fails(project, "gpu-2", "log has no line 'Test PASSED'")
    finally:
        project.fault("gpu-2")


def test_a_removed_drop_in_fails_a_run_that_does_not_look_at_hosts(
    project: Project, healed: None
) -> None:
    path = project.host_root("gpu-1") / DROP_IN
    content = path.read_bytes()
    path.unlink()
    try:
        fails(project, "gpu-1", "0 of 8 GPUs allocatable", GPU_CLUSTER_INSPECTION="cluster")
    finally:
        path.write_bytes(content)


def test_a_removed_drop_in_shows_in_the_preview_and_is_put_back(project: Project) -> None:
    path = project.host_root("gpu-1") / DROP_IN
    content = path.read_bytes()
    path.unlink()
    preview = project.pulumi("preview", "--diff")
    assert "99-nvidia.toml" in preview.stdout, preview.stdout
    assert not path.exists()
    validated, declared, _ = figures(project.up())
    assert (validated, declared) == (32, 32)
    assert path.read_bytes() == content
    assert figures(project.up()) == (32, 32, 0)


def test_a_plugin_scaled_to_none_fails_the_run(project: Project, healed: None) -> None:
    url = "namespaces/nvidia-device-plugin/daemonsets/nvidia-device-plugin"
    selector = {"nowhere": "true"}

    def patch(value: str | None) -> None:
        project.request(
            "PATCH",
            url,
            base="/apis/apps",
            body={"spec": {"template": {"spec": {"nodeSelector": dict.fromkeys(selector, value)}}}},
            content_type="application/merge-patch+json",
        )

    patch("true")
    try:
        fails(project, "gpu-4", "0 of 8 GPUs allocatable")
    finally:
        patch(None)
