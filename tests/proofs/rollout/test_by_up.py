"""Full runs of `up` with a rollout: the preview announces it, `up` executes it, and validates."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gpu_cluster.nodes.record import RECORD
from tests.guard import own_name
from tests.proofs.e2e.project import Project, started

pytestmark = pytest.mark.full

APPLIED = "var/lib/gpu-cluster/runtime/disrupts"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project.make(tmp_path_factory.mktemp("rollout"), own_name("rolled"))
    with started(made):
        yield made


def changed(output: str) -> int:
    match = re.search(r"up: 32 of 32 GPUs simulated, (\d+) resources changed", output)
    assert match, output
    return int(match[1])


def annotations(project: Project) -> dict[str, str]:
    """Return the validation record on each host's node."""
    names = ("gpu-1", "gpu-2")
    nodes = {name: project.request("GET", f"nodes/{name}") for name in names}
    return {n: node["metadata"]["annotations"][RECORD] for n, node in nodes.items()}


def since(records: dict[str, str]) -> dict[str, str]:
    """Return the time of the validation record on each host's node."""
    found = {name: re.search(r"\d{4}-\d\d-\d\dT[\d:]+Z", text) for name, text in records.items()}
    return {name: match[0] for name, match in found.items() if match}


def test_a_change_of_the_engine_goes_in_waves_and_the_next_up_changes_nothing(
    project: Project,
) -> None:
    first = project.command("up")
    assert changed(first.stdout)
    assert "changed in waves" not in first.stdout
    validated = annotations(project)
    project.edit(lambda cluster: cluster.update(runtime={"devicesByEnvironment": True}))
    preview = project.command("preview")
    assert preview.returncode == 0, preview.stdout
    assert "2 nodes changed in waves, at most 1 out of use at once" in preview.stdout
    assert "wave 1: gpu-1" in preview.stdout
    assert "wave 2: gpu-2" in preview.stdout
    assert (
        "drained for runtime.devicesByEnvironment false → true: 16 GPUs of gpu-1..2 gone meanwhile"
        in preview.stdout
    )
    done = project.command("up")
    assert changed(done.stdout)
    assert "wave 1: gpu-1" in done.stdout
    for name in ("gpu-1", "gpu-2"):
        node = project.request("GET", f"nodes/{name}")
        assert "unschedulable" not in node["spec"]
        assert "rollout" not in str(node["spec"].get("taints"))
        host = project.host_root(name)
        assert "containerd nvidia true" in (host / APPLIED).read_text()
    before, after = since(validated), since(annotations(project))
    assert before["gpu-1"] < after["gpu-1"] <= after["gpu-2"], "validated in its own turn"
    assert changed(project.command("up").stdout) == 0
