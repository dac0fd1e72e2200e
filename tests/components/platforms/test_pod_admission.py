"""What the API server would refuse of the platform's pods is named before a run creates them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.platforms.findings import PodAdmission, Surroundings
from gpu_cluster.platforms.validate_cluster import validate_cluster
from gpu_cluster.release.inspect import surroundings
from gpu_rules.faults import Fault, FaultSeverity
from tests.fixtures.api import client
from tests.fixtures.documents import plugin_manifest
from tests.proofs.platform import ways

Json = dict[str, Any]
SERVED = Surroundings(version="v1.34.4", groups={"resource.k8s.io": ["v1"]})
CLASSES = frozenset({"system-node-critical", "system-cluster-critical"})
WAY = {"device-plugin": "device-plugin", "gpu-operator": "gpu-operator-preinstalled", "dra": "dra"}
SECTION = {"device-plugin": "devicePlugin", "gpu-operator": "gpuOperator", "dra": "dra"}


def judged(document: Json, admission: PodAdmission, **seen: Any) -> list[Fault]:
    """Return the faults of a cluster in which a stack would run."""
    cluster = load(document)
    desired = resolve(cluster, "test")
    node = {"kubernetes.io/hostname": "gpu-1"}
    members: Mapping[str, list[Mapping[str, str]]] = {cluster.pools[0].name: [node, node, node]}
    around = replace(SERVED, admission=admission, **seen)
    wanted = replace(desired.wanted, engines={})
    return validate_cluster(desired.platform, around, members, {}, wanted)


def texts(*given: Any, **seen: Any) -> list[str]:
    return [str(fault) for fault in judged(*given, **seen)]


def stack(platform: str, extra: Json | None = None, **more: Any) -> Json:
    section = {SECTION[platform]: {"extraValues": extra}} if extra else {}
    return ways.declared("x", WAY[platform]) | section | more


def manifests(**pod: Any) -> Json:
    return ways.declared("x", "device-plugin") | {"adopted": {"objects": [plugin_manifest(**pod)]}}


def quota(name: str, hard: Json, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def of_class(*values: str) -> Json:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [*values]}
    return {"matchExpressions": [scope]}


@pytest.mark.promise("A preview names what would keep the API server from creating the pods.")
@pytest.mark.parametrize(
    ("document", "path"),
    [
        (stack("device-plugin", {"priorityClassName": "gone"}), "devicePlugin.extraValues."),
        (
            stack("gpu-operator", {"daemonsets": {"priorityClassName": "gone"}}),
            "gpuOperator.extraValues.daemonsets.",
        ),
        (
            stack("gpu-operator", {"operator": {"priorityClassName": "gone"}}),
            "gpuOperator.extraValues.operator.",
        ),
        (
            stack("dra", {"kubeletPlugin": {"priorityClassName": "gone"}}),
            "dra.extraValues.kubeletPlugin.",
        ),
        (manifests(priorityClassName="gone"), "adopted.objects[0].spec.template.spec."),
    ],
)
def test_a_priority_class_must_exist_or_be_the_stacks_own(document: Json, path: str) -> None:
    (text,) = texts(document, PodAdmission(priority_classes=CLASSES))
    assert text.startswith(f"{path}priorityClassName: found PriorityClass gone, which the cluster")
    assert texts(document, PodAdmission(priority_classes=CLASSES | {"gone"})) == []
    assert texts(document, PodAdmission()) == []  # The list could not be read.
    own = {"scheduling": {"priorityClasses": [{"name": "gone", "value": 1000}]}}
    assert texts(document | own, PodAdmission(priority_classes=CLASSES)) == []


def test_a_class_of_a_section_that_is_off_decides_nothing() -> None:
    off = {"dcgm": {"enabled": False, "priorityClassName": "gone"}}
    document = manifests() | {"adopted": {"release": release(off)}}
    assert texts(document, PodAdmission(priority_classes=CLASSES)) == []
    on = {"dcgm": {"enabled": True, "priorityClassName": "gone"}}
    document = manifests() | {"adopted": {"release": release(on)}}
    assert len(texts(document, PodAdmission(priority_classes=CLASSES))) == 1


def release(values: Json) -> Json:
    return {"name": "nvdp", "namespace": "gpus", "version": "0.20.0", "values": values}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (manifests(runtimeClassName="nvidia"), "adopted.objects[0].spec.template.spec."),
        (
            manifests() | {"adopted": {"release": release({"runtimeClassName": "nvidia"})}},
            "adopted.release.values.",
        ),
    ],
)
def test_a_runtime_class_that_nothing_creates_is_named(document: Json, path: str) -> None:
    (text,) = texts(document, PodAdmission(runtime_classes=frozenset()))
    assert text.startswith(f"{path}runtimeClassName: found RuntimeClass nvidia, which nothing")
    assert texts(document, PodAdmission(runtime_classes=frozenset({"nvidia"}))) == []
    assert texts(document, PodAdmission()) == []


@pytest.mark.parametrize("way", ways.WAYS)
def test_the_runtime_class_that_the_stack_creates_is_none_to_find(way: str) -> None:
    document = ways.declared("x", way)
    assert texts(document, PodAdmission(runtime_classes=frozenset())) == []


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_level_of_pod_security_that_refuses_folders_of_the_host_is_named(level: str) -> None:
    (text,) = texts(manifests(), PodAdmission(levels={"gpus": level}))
    assert text.startswith(
        f"namespace gpus: found the label pod-security.kubernetes.io/enforce={level}"
    )
    assert "`kubectl label namespace gpus --overwrite" in text
    own = stack("device-plugin")
    assert len(texts(own, PodAdmission(levels={"nvidia-device-plugin": level}))) == 1
    assert texts(own, PodAdmission(levels={"team": level})) == []
    assert texts(manifests(), PodAdmission(levels={"gpus": "privileged"})) == []


GKE = "v1.34.4-gke.1208000"
OF_CLASS = {"priorityClasses": [{"name": "gpus", "value": 1000}]}


def test_gke_limits_the_system_classes_to_namespaces_with_a_quota_of_theirs() -> None:
    plugin, nothing = stack("device-plugin"), PodAdmission(priority_classes=CLASSES)
    (text,) = texts(plugin, nothing, version=GKE)
    assert text.startswith(
        "namespace nvidia-device-plugin: found no ResourceQuota of PriorityClass "
        "system-node-critical, which GKE demands"
    )
    assert texts(plugin, nothing) == []
    right = quota("critical", {"pods": "1G"}, scopeSelector=of_class("system-node-critical"))
    has = PodAdmission(quotas={"nvidia-device-plugin": (right,)})
    assert texts(plugin, has, version=GKE) == []
    other = quota("critical", {"pods": "1G"}, scopeSelector=of_class("other"))
    has = PodAdmission(quotas={"nvidia-device-plugin": (other,)})
    assert len(texts(plugin, has, version=GKE)) == 1
    assert texts(manifests(), nothing, version=GKE) == []  # Its pods have no such class.
    assert (
        len(texts(manifests(priorityClassName="system-node-critical"), nothing, version=GKE)) == 1
    )


def test_the_cure_of_a_limited_class_is_a_class_of_the_stack() -> None:
    edited = stack("device-plugin", {"priorityClassName": "gpus"}, scheduling=OF_CLASS)
    assert texts(edited, PodAdmission(priority_classes=CLASSES), version=GKE) == []


@pytest.mark.parametrize("key", ["pods", "count/pods"])
def test_a_quota_must_leave_a_pod_for_each_node_with_gpus(key: str) -> None:
    few = PodAdmission(quotas={"gpus": (quota("few", {key: "2"}),)})
    (text,) = texts(manifests(), few)
    assert text.startswith("ResourceQuota gpus/few: found at most 2 pods; wanted: 3 or more")
    enough = PodAdmission(quotas={"gpus": (quota("few", {key: "3"}),)})
    assert texts(manifests(), enough) == []
    for scope in ("Terminating", "BestEffort"):
        scoped = PodAdmission(quotas={"gpus": (quota("few", {key: "2"}, scopes=[scope]),)})
        assert texts(manifests(), scoped) == []
    scoped = PodAdmission(quotas={"gpus": (quota("few", {key: "2"}, scopes=["NotTerminating"]),)})
    assert len(texts(manifests(), scoped)) == 1
    selected = quota("few", {key: "2"}, scopeSelector=of_class("high"))
    scoped = PodAdmission(quotas={"gpus": (selected,)}, priority_classes=frozenset({"high"}))
    assert texts(manifests(), scoped) == []
    assert len(texts(manifests(priorityClassName="high"), scoped)) == 1


def test_a_quota_of_cpu_without_a_limit_range_is_a_warning() -> None:
    counted = quota("compute", {"requests.cpu": "10", "limits.memory": "1Gi", "pods": "100"})
    (fault,) = judged(manifests(), PodAdmission(quotas={"gpus": (counted,)}))
    assert fault.severity is FaultSeverity.WARNING
    assert "a quota of limits.memory, requests.cpu, and no LimitRange" in str(fault)
    ranged = PodAdmission(quotas={"gpus": (counted,)}, ranged=frozenset({"gpus"}))
    assert judged(manifests(), ranged) == []
    empty = PodAdmission(quotas={"gpus": ({"metadata": {"name": "empty"}},)})
    assert judged(manifests(), empty) == []
    devices = quota("devices", {"requests.nvidia.com/gpu": "8"})
    assert judged(manifests(), PodAdmission(quotas={"gpus": (devices,)})) == []


def test_rules_of_features_need_the_kinds_of_feature_discovery() -> None:
    document = stack("gpu-operator", {"nfd": {"nodefeaturerules": True}})
    assert texts(document, PodAdmission()) == []
    without = {"gpuOperator": {"nfd": False, "extraValues": {"nfd": {"nodefeaturerules": True}}}}
    (text,) = texts(document | without, PodAdmission())
    assert "the cluster does not serve nfd.k8s-sigs.io" in text
    groups = {"nfd.k8s-sigs.io": ["v1alpha1"]}
    assert texts(document | without, PodAdmission(), groups=groups) == []


def test_what_admits_pods_is_read_of_the_platforms_namespaces() -> None:
    asked: list[str] = []

    def listed(*items: Json) -> httpx.Response:
        return httpx.Response(200, json={"metadata": {}, "items": [*items]})

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.rstrip("/")
        asked.append(path)
        if path == "/version":
            return httpx.Response(200, json={"gitVersion": "v1.34.4"})
        if path == "/apis":
            return httpx.Response(200, json={"groups": []})
        if path.endswith("/priorityclasses"):
            return listed({"metadata": {"name": "system-node-critical"}})
        if path.endswith("/runtimeclasses"):
            return httpx.Response(403, json={"message": "forbidden"})
        if path.endswith("/api/v1/namespaces"):
            labels = {"pod-security.kubernetes.io/enforce": "restricted"}
            spaces = ("gpus", labels), ("team", labels), ("other", {})
            return listed(*({"metadata": {"name": n, "labels": at}} for n, at in spaces))
        if path.endswith("/namespaces/gpus/resourcequotas"):
            return listed(quota("few", {"pods": "2"}))
        return listed()

    found = asyncio.run(surroundings(client(answer), [], [], [], pods=["gpus"]))
    assert found.admission == PodAdmission(
        priority_classes=frozenset({"system-node-critical"}),
        levels={"gpus": "restricted"},
        quotas={"gpus": (quota("few", {"pods": "2"}),)},
    )
    asked.clear()
    assert asyncio.run(surroundings(client(answer), [], [], [])).admission is None
    assert not any("quota" in path or "classes" in path for path in asked)


def test_the_question_names_the_namespaces_of_the_platforms_pods() -> None:
    assert resolve(load(manifests()), "test").question.pods == {"gpus"}
    assert resolve(load(stack("dra")), "test").question.pods == {"nvidia-dra-driver"}
