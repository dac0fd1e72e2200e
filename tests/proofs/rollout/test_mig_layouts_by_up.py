"""Full runs of `up` that change MIG layouts: the preview names the nodes, `up` uses waves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.guard import own_name
from tests.proofs.e2e.project import Project, figures, started

pytestmark = pytest.mark.full

Json = dict[str, Any]
PODS = "namespaces/default/pods"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    stack = own_name("layouts-up")
    made = Project.make(tmp_path_factory.mktemp("layouts"), stack)
    made.write(
        {
            "version": "v1",
            "kubernetes": {"context": f"gpu-cluster-{stack}"},
            "platform": "gpu-operator",
            "rollout": {"evict": ["unmanaged"]},
            "validation": {"timeoutSeconds": 120},
            "pools": [pool({"1g.5gb": 7})],
        }
    )
    with started(made):
        yield made


def pool(mig: Json) -> Json:
    return {"name": "a100", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8, "mig": mig}


def held(project: Project) -> None:
    """Create a pod that uses a GPU or MIG device of gpu-1, and wait until it runs."""
    resources = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": "gpu-1"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "sample", "resources": resources}],
    }
    body = {"metadata": {"name": "train"}, "spec": spec}
    project.request("POST", PODS, body=body)
    deadline = time.monotonic() + 60
    while project.request("GET", f"{PODS}/train")["status"]["phase"] != "Running":
        assert time.monotonic() < deadline
        time.sleep(0.2)


def offered(project: Project) -> list[str]:
    nodes = (project.request("GET", f"nodes/gpu-{number}") for number in (1, 2))
    return [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes]


def test_a_changed_layout_goes_in_waves_and_the_next_up_changes_nothing(project: Project) -> None:
    assert figures(project.up())[:2] == (16, 16)
    assert offered(project) == ["56", "56"]
    assert figures(project.up())[2] == 0
    held(project)
    project.edit(lambda cluster: cluster.update(pools=[pool({"3g.20gb": 2})]))
    preview = project.command("preview")
    assert preview.returncode == 0, preview.stdout
    assert "2 nodes partitioned again, at most 1 with pods out of use at once" in preview.stdout
    assert "1 pod is evicted because its node is drained: default/train (gpu-1" in preview.stdout
    assert "without pods, so changed first: gpu-2" in preview.stdout
    assert offered(project) == ["56", "56"]
    assert figures(project.up())[:2] == (16, 16)
    assert offered(project) == ["16", "16"]
    names = [item["metadata"]["name"] for item in project.request("GET", PODS)["items"]]
    assert "train" not in names
    assert figures(project.up())[2] == 0
