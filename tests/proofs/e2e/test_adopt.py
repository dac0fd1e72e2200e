"""A running cluster is taken over and left without a restart of its pods."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolchain
from lab.helm import Helm
from tests.proofs.e2e.project import Project, figures, started
from tests.proofs.platform import ways

Json = dict[str, Any]
CHARTS = Path(__file__).parents[2] / "lab" / "simulator" / "charts"
SECONDS = 120
TAINT = {"key": "gpu-team", "value": "ml", "effect": "NoSchedule"}


def kubeconfig(project: Project) -> Path:
    return toolchain.cache_dir() / "embedded" / project.stack / "kubeconfig"


def pods(project: Project, *namespaces: str) -> dict[str, tuple[str, str]]:
    """Return UID and start time of all pods in these namespaces, by namespace and name."""
    found = {}
    for namespace in namespaces:
        for item in project.request("GET", f"namespaces/{namespace}/pods")["items"]:
            metadata, status = item["metadata"], item["status"]
            name = f"{metadata['namespace']}/{metadata['name']}"
            found[name] = (metadata["uid"], status.get("startTime", ""))
    return found


def nodes(project: Project) -> dict[str, tuple[Json, list[Json]]]:
    """Return labels and taints of all nodes."""
    return ways.look(project)


def label_by_hand(project: Project, names: list[str], labels: Json, taints: list[Json]) -> None:
    """Set labels and taints as a person does with kubectl."""
    for name in names:
        project.request(
            "PATCH",
            f"nodes/{name}",
            body={"metadata": {"labels": labels}, "spec": {"taints": taints}},
            content_type="application/merge-patch+json",
            params={"fieldManager": "kubectl-label"},
        )


def await_gpus(project: Project, names: list[str], gpus: int) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = [project.request("GET", f"nodes/{name}")["status"] for name in names]
        if all(each["allocatable"].get("nvidia.com/gpu") == str(gpus) for each in found):
            return
        time.sleep(1)
    raise AssertionError(f"{names} don't offer {gpus} GPUs each")


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Project]:
    """Yield a project with a running cluster of three GPU nodes, without a stack file."""
    project = Project.make(tmp_path, f"adopt-{os.getpid()}")
    project.write(ways.declared(project.stack, "device-plugin"))
    with started(project):
        project.file.unlink()
        yield project


def adopt(project: Project, **environment: str) -> str:
    """Run `make adopt`, which must succeed; return its output."""
    given = {"CONTEXT": f"gpu-cluster-{project.stack}", "KUBECONFIG": str(kubeconfig(project))}
    done = project.command("adopt", **given, **environment)
    assert done.returncode == 0, done.stdout
    return done.stdout


NAMES = ["gpu-1", "gpu-2", "gpu-3"]


@pytest.mark.slow
@pytest.mark.promise(
    "`make adopt` and `make up` take over a device plugin that Helm installed under another name "
    "in kube-system: no pod restarts, no node gets a taint, and `make destroy` leaves it."
)
def test_a_release_under_another_name_in_kube_system_is_taken_over_in_place(
    foreign: Project, tmp_path: Path
) -> None:
    label_by_hand(foreign, NAMES, {"nvidia.com/gpu.present": "true", "team": "ml"}, [TAINT])
    values = {
        "gfd": {"enabled": True},
        "podAnnotations": {"example.com/owner": "ml"},
        "tolerations": [{"operator": "Exists"}],
        "nfd": {"worker": {"tolerations": [{"operator": "Exists"}]}},
    }
    helm = Helm(tmp_path, kubeconfig(foreign))
    try:
        helm.install("nvdp", CHARTS / "nvidia-device-plugin", values, "kube-system")
    finally:
        helm.close()
    await_gpus(foreign, NAMES, 8)
    before, marked = pods(foreign, "kube-system"), nodes(foreign)
    print(adopt(foreign))
    print(foreign.file.read_text())
    assert pods(foreign, "kube-system") == before
    assert figures(foreign.up())[:2] == (24, 24)
    assert pods(foreign, "kube-system") == before
    assert {name: taints for name, (_, taints) in nodes(foreign).items()} == {
        name: taints for name, (_, taints) in marked.items()
    }
    assert figures(foreign.up()) == (24, 24, 0)
    assert "nothing written" in adopt(foreign)
    done = foreign.command("destroy")
    assert done.returncode == 0, done.stdout
    assert pods(foreign, "kube-system") == before
    assert nodes(foreign) == marked
