"""Change from each platform to each other platform: never both at once, and no leftovers."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest

from gpu_cluster.kubernetes.api import Client
from gpu_cluster.platforms.discovery import every
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways
from tests.proofs.platform.ways import ALL, served

PAIRS = [
    pytest.param(old, new, marks=pytest.mark.full, id=f"{old}-to-{new}")
    for old, new in itertools.permutations(ways.WAYS, 2)
]


RUNC = {"runtime": {"defaultRuntime": "runc"}}
PLUGIN, OPERATOR = "device-plugin", "gpu-operator-preinstalled"


class Watch:
    """Records which platforms have GPU pods at the same time, while the context lasts."""

    def __init__(self, project: Project) -> None:
        self.seen: set[frozenset[str]] = set()
        self._project = project
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _look(self) -> None:
        async def serving(client: Client) -> None:
            while not self._stop.is_set():
                at_once = set()
                for platform in every():
                    pods = await client.list("pods", labelSelector=platform.servers.pods)
                    if any(pod["status"].get("phase") == "Running" for pod in pods):
                        at_once.add(platform.chart)
                self.seen.add(frozenset(at_once))
                time.sleep(0.1)

        self._project.ask(serving)


def migrate(project: Project, old: str, new: str, **changes: Any) -> None:
    """Deploy the old platform, then the new platform; check that both never run together."""
    for way in (old, new):
        served(project, way)
    project.write(ways.declared(project.stack, old, **changes))
    assert figures(project.up())[:2] == (ALL, ALL)
    project.write(ways.declared(project.stack, new, **changes))
    with Watch(project) as watch:
        assert figures(project.up())[:2] == (ALL, ALL)
    assert max(map(len, watch.seen)) == 1, watch.seen
    assert figures(project.up()) == (ALL, ALL, 0)


@pytest.mark.full
def test_the_plugin_of_nodes_with_gpus_left_out_gives_way_too(project: Project) -> None:
    before = snapshot.cluster(project)
    declared = ways.declared(project.stack, PLUGIN)
    declared["pools"][0]["unhealthyDevices"] = {"gpu-2": {"index": [3, 5]}}
    project.write(declared)
    assert figures(project.up())[:2] == (ALL - 2, ALL - 2)
    project.write(ways.declared(project.stack, OPERATOR))
    with Watch(project) as watch:
        assert figures(project.up())[:2] == (ALL, ALL)
    assert max(map(len, watch.seen)) == 1, watch.seen
    assert figures(project.up()) == (ALL, ALL, 0)
    gone(project, before)


def gone(project: Project, before: dict[str, Any]) -> None:
    done = project.command("destroy")
    assert done.returncode == 0, done.stdout
    assert snapshot.cluster(project) == before


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_one_platform_follows_another_and_never_beside_it(
    project: Project, old: str, new: str
) -> None:
    before = snapshot.cluster(project)
    migrate(project, old, new)
    gone(project, before)


def runtime_class(project: Project) -> tuple[str, list[str]]:
    """Return the field manager of the RuntimeClass `nvidia`, and the kinds of its owners."""
    present = project.request("GET", "runtimeclasses/nvidia", base="/apis/node.k8s.io")
    metadata = present["metadata"]
    owners = [owner["kind"] for owner in metadata.get("ownerReferences", [])]
    return metadata["labels"]["app.kubernetes.io/managed-by"], owners


@pytest.mark.full
def test_the_plugin_s_runtime_class_outlives_the_operator_that_made_it(project: Project) -> None:
    before = snapshot.cluster(project)
    migrate(project, OPERATOR, PLUGIN, **RUNC)
    assert runtime_class(project) == ("gpu-cluster", [])
    project.request("DELETE", "runtimeclasses/nvidia", base="/apis/node.k8s.io")
    assert figures(project.up())[2] > 0
    assert runtime_class(project) == ("gpu-cluster", [])
    assert figures(project.up())[2] == 0
    gone(project, before)


@pytest.mark.full
def test_the_operator_s_runtime_class_outlives_the_plugin_that_made_it(project: Project) -> None:
    before = snapshot.cluster(project)
    migrate(project, PLUGIN, OPERATOR, **RUNC)
    assert runtime_class(project) == ("gpu-operator", ["ClusterPolicy"])
    gone(project, before)


@pytest.mark.full
def test_a_runtime_class_of_somebody_else_is_used_and_stays(project: Project) -> None:
    """An existing RuntimeClass `nvidia` survives a change of platforms.

    Kubernetes distributions such as K3s create one themselves.
    """
    base = "/apis/node.k8s.io"
    theirs = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia", "labels": {"app.kubernetes.io/managed-by": "somebody"}},
        "handler": "nvidia",
    }
    project.request("POST", "runtimeclasses", base=base, body=theirs)
    try:
        before = snapshot.cluster(project)
        project.write(ways.declared(project.stack, PLUGIN, **RUNC))
        assert figures(project.up())[:2] == (ALL, ALL)
        assert runtime_class(project) == ("somebody", [])
        gone(project, before)
    finally:
        project.request("DELETE", "runtimeclasses/nvidia", base=base)
