"""One Pulumi program with two clusters, each with its own name and control plane."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from gpu_cluster.nodes import record
from tests.guard import own_name
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures, started
from tests.proofs.platform import ways

# Second cluster component in the Pulumi program. The default kubeconfig doesn't have the context of
# this cluster.
SECOND = """
GpuCluster(
    "Green_2",
    GpuClusterArgs(
        settings=settings.require_object("other"),
        kubeconfig=pulumi.Output.secret(settings.require("green")),
    ),
)
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Project]]:
    """Start two embedded clusters; yield a project that declares both."""
    blue, green = (
        Project.make(tmp_path_factory.mktemp(name), own_name(name)) for name in ("blue", "green")
    )
    for project, way in ((blue, "device-plugin"), (green, "gpu-manager")):
        project.write(ways.declared(project.stack, way))
    program = blue.root / "__main__.py"
    text = program.read_text()
    assert text.count('"gpu-cluster",') == 1
    program.write_text(text.replace('"gpu-cluster",', '"1.blue",') + SECOND)
    with started(green), started(blue):
        content = yaml.safe_load(blue.file.read_text())
        content["config"]["gpu-cluster:other"] = green.read()
        content["config"]["gpu-cluster:green"] = green.kubeconfig.read_text()
        blue.file.write_text(yaml.safe_dump(content))
        yield blue, green


def validated(project: Project) -> int:
    """Return the number of GPUs in the validation records on a cluster's nodes."""
    nodes = project.request("GET", "nodes")["items"]
    return sum(len(kept.devices) for kept in map(record.decode, nodes) if kept)


@pytest.mark.full
def test_two_clusters_of_one_program_come_up_stay_and_go(both: tuple[Project, Project]) -> None:
    blue = both[0]
    before = [snapshot.cluster(project) for project in both]
    assert figures(blue.up())[:2] == (ways.ALL, ways.ALL)
    assert [validated(project) for project in both] == [ways.ALL, ways.ALL]
    assert figures(blue.up()) == (ways.ALL, ways.ALL, 0)
    state = blue.checkpoint()
    for name in ("1.blue-gpu-platform-release", "Green_2-gpu-platform-release"):
        assert f"::{name}" in state
    daemon_sets = [
        {item["metadata"]["namespace"] for item in listed["items"]}
        for listed in (project.request("GET", "daemonsets", base="/apis/apps") for project in both)
    ]
    assert daemon_sets[0].isdisjoint(daemon_sets[1])
    done = blue.command("destroy")
    assert done.returncode == 0, done.stdout
    assert [snapshot.cluster(project) for project in both] == before
