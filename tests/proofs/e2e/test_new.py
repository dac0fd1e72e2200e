"""A stack file of a cluster without GPU software and of its inventory can be previewed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guard import own_name
from tests.proofs.e2e.project import Project, started


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[tuple[Project, Path]]:
    """Yield a project with a running cluster and no stack file, and an inventory of its hosts."""
    project = Project.make(tmp_path, own_name("new"))
    lines = [
        f"{host['name']} ansible_host={host['address']} ansible_port={host['port']}"
        for host in project.read()["hosts"]
    ]
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("\n".join(["[kube_node]", *lines, ""]), encoding="utf-8")
    with started(project):
        project.file.unlink()
        yield project, inventory


@pytest.mark.slow
@pytest.mark.promise("What `gpu-cluster new` writes from an inventory can be previewed at once.")
def test_what_is_written_of_an_inventory_can_be_previewed(foreign: tuple[Project, Path]) -> None:
    project, inventory = foreign
    done = project.command(
        "new",
        FROM_CLUSTER=f"gpu-cluster-{project.stack}",
        FROM_INVENTORY=str(inventory),
        SCAN="1",
        KUBECONFIG=str(project.kubeconfig),
    )
    assert done.returncode == 0, done.stdout
    assert "SHA256:" in done.stdout
    written = project.file.read_bytes()
    settings = project.read()
    assert [(pool["nodes"], pool["gpusPerNode"]) for pool in settings["pools"]] == [
        (["gpu-[1-2]"], 8)
    ]
    assert [host["name"] for host in settings["hosts"]] == ["gpu-1", "gpu-2"]
    previewed = project.command("preview")
    assert previewed.returncode == 0, previewed.stdout
    assert "GPUs 0 → 16" in previewed.stdout
    assert project.file.read_bytes() == written
