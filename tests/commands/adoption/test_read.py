"""GPU software of a running cluster is recognized by what it can do and made, not by its image."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gpu_cluster.commands.adoption import parse
from gpu_cluster.commands.adoption.observed import ObservedCluster
from gpu_cluster.commands.adoption.propose import propose
from gpu_cluster.commands.adoption.read import read_cluster
from gpu_cluster.release.helm_record import encode_release
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


def read_served(items: Callable[[str, httpx.Request], list[Json]]) -> ObservedCluster:
    """Return the model of a cluster.

    Args:
        items: Function that returns the objects of a resource by its name and the request.
    """

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.rstrip("/").rpartition("/")[2]
        if name == "version":
            return httpx.Response(200, json={"gitVersion": "v1.36.3"})
        if name.endswith((".io", ".com")):
            return httpx.Response(404, json={"message": "not served"})
        return httpx.Response(200, json={"metadata": {}, "items": items(name, request)})

    return asyncio.run(read_cluster(client(answer)))


def read(**lists: list[Json]) -> ObservedCluster:
    """Return the model of a cluster with some objects, by resource."""
    return read_served(lambda name, _: lists.get(name, []))


def workloads(**lists: list[Json]) -> list[str]:
    """Return the GPU software that is found in a cluster with some objects, by resource."""
    return [str(found) for found in read(**lists).workloads]


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


SHARES = {
    "meta.helm.sh/release-name": "shares",
    "meta.helm.sh/release-namespace": "kube-system",
}


def scheduler(namespace: str, replicas: int) -> Json:
    container = {"name": "kube-scheduler", "image": "registry.k8s.io/kube-scheduler:v1.36.3"}
    metadata = {"name": "shares-hami-scheduler", "namespace": namespace, "annotations": SHARES}
    template = {"spec": {"containers": [container]}}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": template}}


@pytest.mark.parametrize(("namespace", "edits"), [("kube-system", ["spec.replicas"]), ("team", [])])
def test_an_edit_of_hamis_scheduler_is_found_and_not_one_of_a_tenants_object(
    namespace: str, edits: list[str]
) -> None:
    installed = daemon_set("kube-system", REGISTRY, annotations=SHARES)
    installed["spec"]["template"]["spec"]["containers"][0]["image"] = "projecthami/hami:v2.10.0"
    declared = {"apiVersion": "apps/v1", "kind": "Deployment", **scheduler("kube-system", 1)}
    recorded = {
        "name": "shares",
        "chart": {"metadata": {"name": "hami", "version": "2.10.0"}},
        "info": {"status": "deployed"},
        "manifest": json.dumps(declared),
    }
    secret = {
        "metadata": {"name": "sh.helm.release.v1.shares.v1", "namespace": "kube-system"},
        "type": "helm.sh/release.v1",
        "data": {"release": encode_release(recorded)},
    }
    found = read(daemonsets=[installed], deployments=[scheduler(namespace, 2)], secrets=[secret])
    (release,) = found.releases
    assert [edit.path for edit in release.edits] == edits


def release_secret(name: str) -> Json:
    recorded = {
        "name": name,
        "chart": {"metadata": {"name": "nvidia-device-plugin", "version": "0.17.4"}},
        "info": {"status": "deployed"},
        "manifest": "",
    }
    return {
        "metadata": {"name": f"sh.helm.release.v1.{name}.v1", "namespace": "kube-system"},
        "type": "helm.sh/release.v1",
        "data": {"release": encode_release(recorded)},
    }


def test_each_object_is_assigned_to_its_release_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of comparisons does not grow with releases times objects."""
    calls: Counter[str] = Counter()
    release_of = parse.release_of

    def counted(item: Json) -> tuple[str, str] | None:
        calls[item["metadata"]["name"]] += 1
        return release_of(item)

    sets, total = [], 2000
    for number in range(total):
        notes = {**SHARES, "meta.helm.sh/release-name": f"r{number}"}
        made = daemon_set("kube-system", REGISTRY, annotations=notes)
        sets.append({**made, "metadata": {**made["metadata"], "name": f"d{number}"}})

    def items(name: str, request: httpx.Request) -> list[Json]:
        if name == "secrets":
            return [release_secret(request.url.params["labelSelector"].rpartition("=")[2])]
        return sets if name == "daemonsets" else []

    monkeypatch.setattr(parse, "release_of", counted)
    found = read_served(items)
    assert len(found.releases) == total
    assert calls.keys() == {f"d{number}" for number in range(total)}
    assert max(calls.values()) <= 3
