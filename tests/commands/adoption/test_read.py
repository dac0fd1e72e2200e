"""GPU software of a running cluster is recognized by what it can do and made, not by its image."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gpu_cluster.commands.adoption.propose import propose
from gpu_cluster.commands.adoption.read import read_cluster
from tests.fixtures.api import client
from tests.fixtures.running_clusters import by_manifest, machine, plugin

Json = dict[str, Any]
REGISTRY = [{"name": "p", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]


def daemon_set(namespace: str, volumes: list[Json], **metadata: Any) -> Json:
    item = plugin(namespace=namespace, **metadata)
    item["spec"]["template"]["spec"]["volumes"] = volumes
    return item


def operator(namespace: str) -> Json:
    image = {"name": "gpu-operator", "image": "nvcr.io/nvidia/gpu-operator:v26.7.0"}
    metadata = {"name": "gpu-operator", "namespace": namespace}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [image]}}}}


def workloads(**lists: list[Json]) -> list[str]:
    """Return the GPU software that is found in a cluster with some objects, by resource."""

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.rstrip("/").rpartition("/")[2]
        if name == "version":
            return httpx.Response(200, json={"gitVersion": "v1.36.3"})
        if name.endswith((".io", ".com")):
            return httpx.Response(404, json={"message": "not served"})
        return httpx.Response(200, json={"metadata": {}, "items": lists.get(name, [])})

    return [str(found) for found in asyncio.run(read_cluster(client(answer))).workloads]


@pytest.mark.promise("A tenant's workload is not taken over, and blocks no takeover, by its image.")
def test_a_daemon_set_with_the_image_of_a_plugin_that_reaches_no_kubelet_is_none() -> None:
    ours, forged = daemon_set("kube-system", REGISTRY), daemon_set("team", [])
    assert workloads(daemonsets=[ours, forged]) == [
        "DaemonSet kube-system/nvidia-device-plugin-daemonset"
    ]


def test_an_operator_is_where_it_made_the_daemon_sets_of_a_cluster_policy() -> None:
    owner = {"kind": "ClusterPolicy", "name": "p", "uid": "u-1", "controller": True}
    made = daemon_set("gpu", REGISTRY, ownerReferences=[owner])
    forged = daemon_set("team", REGISTRY, ownerReferences=[{**owner, "uid": "u-2"}])
    found = workloads(
        daemonsets=[made, forged],
        deployments=[operator("gpu"), operator("team")],
        clusterpolicies=[{"metadata": {"name": "p", "uid": "u-1"}}],
    )
    assert "Deployment gpu/gpu-operator" in found
    assert "Deployment team/gpu-operator" not in found


def test_an_operator_that_made_nothing_yet_is_found() -> None:
    assert workloads(deployments=[operator("gpu")]) == ["Deployment gpu/gpu-operator"]


@pytest.mark.parametrize(("namespace", "is_noted"), [("kube-system", False), ("team", True)])
def test_a_manifest_that_a_tenant_may_have_made_is_noted(namespace: str, is_noted: bool) -> None:
    notes = propose(by_manifest(machine("gpu-1"), namespace=namespace), "prod").notes
    assert any("Nothing says who made it" in note for note in notes) is is_noted
