"""On each platform, pods are still admitted if a stack enables all features together.

The tests use the real Pulumi and the embedded cluster's API server, with enforced guardrails,
limits and quotas per namespace, monitoring and priority classes. A server-side dry run of a
creation passes through all of admission (Kubernetes documentation, "Dry-run").
"""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.drain import owner_of
from gpu_cluster.platforms.own_namespaces import own_namespaces
from gpu_rules.rules import evaluate
from tests.fixtures.platforms import deployed
from tests.proofs.e2e.project import Project, figures
from tests.proofs.platform import ways
from tests.proofs.platform.ways import ALL, served

Json = dict[str, Any]

TEAM, OTHER = "team-a", "team-b"
GPU, CORE, MEMORY = "nvidia.com/gpu", "tencent.com/vcuda-core", "tencent.com/vcuda-memory"
CLASS = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
CLAIM = "one-gpu"
LIMIT = 120
ROOM: Json = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}


def features(way: str) -> Json:
    """Return sections of a stack file with all features that affect admission.

    One namespace has GPU limits if the platform accepts them, another one has none.
    """
    counted = {"gpu-manager": CORE, "dra": CLASS}.get(way, GPU)
    limits = [{"namespace": TEAM, "maxCards": 2}] if way in ways.LIMITED else []
    return {
        "guardrails": {
            "mode": "enforce",
            "maxGpusPerContainer": 4,
            "maxGpusPerPod": 8,
            "quotas": [{"namespace": TEAM, "resources": {counted: 400}}],
        },
        "monitoring": {},
        "scheduling": {
            "limits": limits,
            "priorityClasses": [{"name": "gpu-batch", "value": 1000, "preempts": False}],
        },
    }


def plain() -> Json:
    """Return a pod without GPUs and without special settings."""
    container = {"name": "busybox", "image": "busybox:1.36", "command": ["true"]}
    first = {**container, "name": "first"}
    return _pod("plain", {"initContainers": [first], "containers": [container]})


def asking(way: str) -> Json:
    """Return a pod that requests one GPU or a share of a GPU, in the platform's own form."""
    asked: Json = {"gpu-manager": {CORE: "50", MEMORY: "8"}, "dra": {}}.get(way, {GPU: "1"})
    image = f"registry.example.com/train@sha256:{'1' * 64}"
    container: Json = {
        "name": "train",
        "image": image,
        "resources": {**ROOM, "limits": {**ROOM["limits"], **asked}},
    }
    spec: Json = {"priorityClassName": "gpu-batch", "restartPolicy": "Never"}
    if way == "dra":
        container["resources"]["claims"] = [{"name": CLAIM}]
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimTemplateName": CLAIM}]
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return _pod("asking", {**spec, "containers": [container], "tolerations": tolerations})


def _pod(name: str, spec: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def pods_of(project: Project, space: str) -> list[Json]:
    """Return a namespace's pods that a controller creates again, without those of Jobs."""
    items: list[Json] = project.request("GET", f"namespaces/{space}/pods")["items"]
    return [pod for pod in items if (owner_of(pod) or {}).get("kind", "Job") != "Job"]


def made_again(project: Project, space: str) -> None:
    """Delete all pods of the stack's workloads, and wait until they have been created again."""
    before = pods_of(project, space)
    for pod in before:
        project.request("DELETE", f"namespaces/{space}/pods/{pod['metadata']['name']}")
    old = {pod["metadata"]["uid"] for pod in before}
    end = time.monotonic() + LIMIT
    while True:
        new = [pod for pod in pods_of(project, space) if pod["metadata"]["uid"] not in old]
        if len(new) >= len(before):
            return
        assert time.monotonic() < end, f"{space}: {len(new)} of {len(before)} pods came again"
        time.sleep(0.5)


def defaulted(pod: Json, limits: Json) -> Json:
    """Return a pod completed with the default values of a LimitRange.

    Source: kubernetes v1.34.4 plugin/pkg/admission/limitranger.
    """
    spec = copy.deepcopy(pod["spec"])
    for container in (*spec["containers"], *spec.get("initContainers", [])):
        own = container.setdefault("resources", {}).setdefault("limits", {})
        container["resources"]["limits"] = {**limits, **own}
    return {**pod, "metadata": {**pod["metadata"], "namespace": TEAM}, "spec": spec}


@pytest.mark.parametrize("way", ways.WAYS)
def test_no_rule_refuses_what_a_limit_range_leaves_of_an_ordinary_pod(way: str) -> None:
    declared = load(ways.declared("x", way, **features(way)))
    objects = resolve(declared, "x").scheduling.objects.values()
    ranges = [made for made in objects if made["kind"] == "LimitRange"]
    (none,) = [made["spec"]["limits"][0]["default"] for made in ranges] or [{}]
    for pod in (plain(), asking(way)):
        found = evaluate(defaulted(pod, none), resolve(declared, "dev").rules)
        assert [violation.rule.id for violation in found] == []


@pytest.mark.full
@pytest.mark.promise(
    "With guardrails that enforce, limits, quotas, monitoring and priority classes all declared, "
    "pods with and without GPUs and the platform's own pods are created, on each platform."
)
@pytest.mark.parametrize("way", ways.WAYS)
def test_pods_are_created_with_all_features_on(project: Project, way: str) -> None:
    served(project, way)
    for space in (TEAM, OTHER):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
        project.request("POST", "namespaces", body=body)
    declared = ways.declared(project.stack, way, **features(way))
    own = [space.name for space in own_namespaces(*deployed(load(declared)))]
    try:
        project.write(declared)
        assert figures(project.up())[:2] == (ALL, ALL)
        if way == "dra":
            _claims(project)
        for space in own:
            made_again(project, space)
        for space in (TEAM, OTHER, "default", *own):
            _created(project, space, plain(), dryRun="All")
        for space in (TEAM, OTHER, "default"):
            _created(project, space, asking(way), dryRun="All")
        _created(project, TEAM, plain())
        _completes(project, TEAM, "plain")
        # With DRA the pod would not start, because the simulator has no DRA driver that prepares
        # claims of other pods.
        if way != "dra":
            _created(project, TEAM, asking(way))
            _completes(project, TEAM, "asking")
    finally:
        project.command("destroy")
        for space in (TEAM, OTHER):
            _removed(project, space)


def _removed(project: Project, space: str) -> None:
    """Delete a namespace and wait until it is gone, so that the next test can create it."""
    project.request("DELETE", f"namespaces/{space}")
    end = time.monotonic() + LIMIT
    while space in {s["metadata"]["name"] for s in project.request("GET", "namespaces")["items"]}:
        assert time.monotonic() < end, f"namespace {space} is still there"
        time.sleep(0.5)


def _created(project: Project, space: str, pod: Json, **params: str) -> None:
    made = project.request("POST", f"namespaces/{space}/pods", body=pod, params=params)
    assert made["metadata"]["name"] == pod["metadata"]["name"]


def _completes(project: Project, space: str, name: str) -> None:
    end = time.monotonic() + LIMIT
    wanted = ("Succeeded",) if name == "asking" else ("Running", "Succeeded")
    phase = ""
    while phase not in wanted:
        assert time.monotonic() < end, f"{space}/{name} is {phase}"
        time.sleep(0.5)
        phase = project.request("GET", f"namespaces/{space}/pods/{name}")["status"]["phase"]


def _claims(project: Project) -> None:
    """Create a ResourceClaimTemplate in each namespace in which test pods request GPUs."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]
    for space in (TEAM, OTHER, "default"):
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": CLAIM},
            "spec": {"spec": {"devices": {"requests": requests}}},
        }
        url = f"namespaces/{space}/resourceclaimtemplates"
        project.request("POST", url, base="/apis/resource.k8s.io", body=body)
