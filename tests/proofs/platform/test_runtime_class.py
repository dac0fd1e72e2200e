"""Ownership of the RuntimeClass `nvidia`, on a real API server with garbage collection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_cluster.kubernetes.api import ClusterError, Refused
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.platforms.discovery import every
from gpu_cluster.platforms.requests import NotedRuntimeClass, RuntimeClassRequest
from gpu_cluster.release import clear as leftovers
from gpu_cluster.release import runtime_class
from gpu_cluster.requests import PREVIOUS, write
from tests.proofs.e2e.project import Project
from tests.proofs.platform.definitions import defined, definition

Json = dict[str, Any]

BASE, NAME = "/apis/node.k8s.io", "nvidia"
POLICY = definition("nvidia.com", "v1", "ClusterPolicy", "Cluster")
POLICY["metadata"]["name"] = "clusterpolicies.nvidia.com"
POLICY["spec"]["names"]["plural"] = "clusterpolicies"
OURS = NotedRuntimeClass(made=True)
# Seconds that the garbage collector may need until it knows a new kind of object.
COLLECTED = 120


@pytest.fixture(autouse=True)
def clean(project: Project) -> Iterator[None]:
    yield
    for name in (NAME, "collected"):
        delete(project, f"runtimeclasses/{name}", BASE)


def delete(project: Project, url: str, base: str) -> None:
    try:
        project.request("DELETE", url, base=base)
    except Refused as error:
        if error.code != 404:
            raise


def read_class(project: Project, name: str = NAME) -> Json | None:
    items = project.request("GET", "runtimeclasses", base=BASE)["items"]
    return next((item for item in items if item["metadata"]["name"] == name), None)


def daemon_set(project: Project, name: str) -> Json:
    items = project.request("GET", "namespaces/default/daemonsets", base="/apis/apps")["items"]
    return next((item for item in items if item["metadata"]["name"] == name), {})


def request(project: Project) -> RuntimeClassRequest:
    return RuntimeClassRequest(context=f"gpu-cluster-{project.stack}", name=NAME)


def own(project: Project) -> NotedRuntimeClass:
    return project.ask(lambda _: runtime_class.own(request(project)))


def remove(project: Project, noted: NotedRuntimeClass) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PREVIOUS, write(noted))
        removed: list[str] = project.ask(lambda _: runtime_class.remove(request(project)))[
            "removed"
        ]
    return removed


def theirs(project: Project, name: str = NAME, **parts: Any) -> None:
    body = {**runtime_class.manifest(name), "handler": parts.get("handler", name)}
    metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "somebody"}}
    body["metadata"] = {**metadata, "ownerReferences": parts.get("owners", [])}
    project.request("POST", "runtimeclasses", base=BASE, body=body)


def test_what_is_missing_is_made_once_and_goes_with_the_stack(project: Project) -> None:
    assert own(project) == own(project) == OURS
    assert remove(project, OURS) == [NAME]
    assert read_class(project) is None
    assert remove(project, OURS) == []


def test_what_somebody_else_made_is_used_and_stays(project: Project) -> None:
    theirs(project)
    made = own(project)
    assert made == NotedRuntimeClass()
    assert remove(project, made) == []
    assert read_class(project) is not None


def test_another_handler_is_refused_with_its_cure(project: Project) -> None:
    theirs(project, handler="kata")
    with pytest.raises(
        ClusterError, match="found a RuntimeClass with handler kata; wanted: handler nvidia"
    ):
        own(project)


@pytest.mark.clusters("stale", "RuntimeClass")
@pytest.mark.full
def test_what_the_operator_leaves_becomes_ours_before_it_is_collected(project: Project) -> None:
    base = "/apis/nvidia.com"
    with defined(project, POLICY):
        body = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}}
        uid = project.request("POST", "clusterpolicies", base=base, body=body)["metadata"]["uid"]
        owner = {key: body[key] for key in ("apiVersion", "kind")} | {"name": "p", "uid": uid}
        for name in (NAME, "collected"):
            theirs(project, name, owners=[{**owner, "controller": True}])
        assert own(project) == OURS
        # The GPU Operator owns the RuntimeClass as long as a ClusterPolicy exists.
        assert remove(project, OURS) == []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime_class, "POLICY_GONE", 0)
            with pytest.raises(ClusterError, match="the GPU Operator still owns"):
                project.ask(lambda client: runtime_class.settle(client, NAME))
        project.request("DELETE", "clusterpolicies/p", base=base)
        project.ask(lambda client: runtime_class.settle(client, NAME))
        # Wait until a second object with the same owner is gone. Then the garbage collector has
        # processed the RuntimeClass too.
        deadline = time.monotonic() + COLLECTED
        while read_class(project, "collected") and time.monotonic() < deadline:
            pass
        assert read_class(project, "collected") is None
        kept = read_class(project)
        assert kept is not None
        assert runtime_class.is_ours(kept)
    assert remove(project, OURS) == [NAME]


def others_of(chart: str) -> list[str]:
    """Return the label selectors of the device pods of all platforms without this chart."""
    return [platform.servers.pods for platform in every() if platform.chart != chart]


def test_our_own_plugin_gives_way_to_another_platform_and_to_no_other_release(
    project: Project,
) -> None:
    apps, name = "/apis/apps", "plugin-of-ours"
    pod = {"app.kubernetes.io/name": "nvidia-device-plugin", "x": name}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}
    term = {"matchFields": [field]}
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default", "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": pod},
            "template": {
                "metadata": {"labels": pod},
                "spec": {
                    "nodeSelector": {"no": "node"},
                    "affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [term]}}},
                    "containers": [{"name": "c", "image": "i"}],
                },
            },
        },
    }
    url = f"namespaces/default/daemonsets/{name}"
    project.request("POST", "namespaces/default/daemonsets", base=apps, body=body)
    try:
        own = others_of("nvidia-device-plugin")
        project.ask(lambda client: leftovers._own_servers_gone(client, own, ["gpu-1"]))
        assert "deletionTimestamp" not in daemon_set(project, name)["metadata"]
        other = others_of("gpu-operator")
        project.ask(lambda client: leftovers._own_servers_gone(client, other, ["gpu-3"]))
        assert "deletionTimestamp" not in daemon_set(project, name)["metadata"], "of another stack"
        project.ask(lambda client: leftovers._own_servers_gone(client, other, ["gpu-1"]))
        deadline = time.monotonic() + 30
        while daemon_set(project, name) and time.monotonic() < deadline:
            pass
        assert not daemon_set(project, name)
    finally:
        delete(project, url, apps)
