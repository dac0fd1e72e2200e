"""Rules that compare several objects see each object once, in each stack that it is part of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.check import together
from gpu_rules.check.document import Source, judge
from gpu_rules.check.result import Found
from gpu_rules.check.stream import StreamPart
from gpu_rules.check.together import CheckedStack
from gpu_rules.rules import Context, NodeTaint, PoolFacts, Subject
from gpu_rules.rules.registry import evaluate_together
from tests.policies.check.running import check

GPU = "nvidia.com/gpu"
NO_CLUSTER = Context()
OVERLAYS = ("kustomization a", "kustomization b", "kustomization c")


def namespace(name: str = "team") -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def quota(gpus: int, name: str = "gpus") -> Any:
    spec = {"hard": {f"requests.{GPU}": gpus}}
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def deployment(replicas: int = 1, name: str = "server", **spec: Any) -> Any:
    container = {"name": "a", "image": "a:1", "resources": {"limits": {GPU: 1}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"replicas": replicas, "template": template, **spec},
    }


def scaler(most: int) -> Any:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "server"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "server", "namespace": "team"},
        "spec": {"scaleTargetRef": target, "maxReplicas": most},
    }


def plugin(image: str) -> Any:
    template = {"spec": {"containers": [{"name": "a", "image": f"{image}:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": image, "namespace": "kube-system"},
        "spec": {"template": template},
    }


def judged(objects: Sequence[tuple[str, Any]], context: Context = NO_CLUSTER) -> list[Found]:
    """Return what rules about several objects find in rendered and plain objects.

    Args:
        objects: Each object with the name of its chart or kustomization; empty for a plain one.
    """
    sources = [
        Source("all.yaml", StreamPart(number, 1, json.dumps(manifest)), rendered=rendered)
        for number, (rendered, manifest) in enumerate(objects, 1)
    ]
    stack = CheckedStack(context, sources)
    for source in sources:
        for result in judge(source, context, keep=True):
            stack.add(result)
    return list(stack.judge())


@pytest.mark.promise(
    "Rules about several objects judge each object once, however many charts and kustomizations "
    "a repository has."
)
def test_each_object_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[tuple[str, str]] = Counter()

    def counting(objects: Sequence[Sequence[Subject]], context: Context) -> Any:
        seen.update((subject.stack, subject.label) for each in objects for subject in each)
        return evaluate_together(objects, context)

    monkeypatch.setattr(together, "evaluate_together", counting)
    plain = [("", namespace(f"team-{number}")) for number in range(20)]
    judged([*plain, *((name, deployment()) for name in OVERLAYS)])
    assert set(seen.values()) == {1}
    assert len(seen) == len(plain) + len(OVERLAYS)


POOL = Context(pools=(PoolFacts("a100", 4, (NodeTaint(GPU),), nodes=1),))
A, B, C = OVERLAYS
MANY_REPLICAS = [("", quota(4)), (A, deployment(3)), (B, deployment(3))]
CASES: dict[str, tuple[list[tuple[str, Any]], Context, list[tuple[str, str, str]]]] = {
    "the GPUs of two overlays are not added up in a quota": (MANY_REPLICAS, NO_CLUSTER, []),
    "the GPUs of two overlays are not added up in pools": (
        [(A, deployment(3)), (B, deployment(3))],
        POOL,
        [],
    ),
    "plain workloads and those of one overlay exceed a quota": (
        [*MANY_REPLICAS, ("", deployment(2, "other"))],
        NO_CLUSTER,
        [("GPU041", "ResourceQuota team/gpus", "")],
    ),
    "the overlay that requests most exceeds a plain quota once": (
        [("", quota(2)), (A, deployment(3)), (B, deployment(4))],
        NO_CLUSTER,
        [("GPU041", "ResourceQuota team/gpus", "")],
    ),
    "each overlay that is too large for the pools is named": (
        [("", deployment(2, "other")), (A, deployment(3)), (B, deployment(1)), (C, deployment(4))],
        POOL,
        [("GPU040", "Deployment team/server", A), ("GPU040", "Deployment team/server", C)],
    ),
    "a quota in an overlay is for this overlay's workloads only": (
        [(A, quota(1)), (A, deployment()), (B, deployment(3)), (B, quota(3))],
        NO_CLUSTER,
        [],
    ),
    "the autoscaler of one overlay does not scale another": (
        [(A, deployment()), (A, scaler(9)), (A, quota(9)), (B, deployment()), (B, quota(1))],
        NO_CLUSTER,
        [],
    ),
    "an autoscaler outside of overlays scales the workloads of each": (
        [(A, deployment()), ("", scaler(9)), (A, quota(1))],
        NO_CLUSTER,
        [("GPU041", "ResourceQuota team/gpus", A)],
    ),
    "a plain namespace gets its quota from the overlay of its workload": (
        [("", namespace()), (A, deployment()), (A, quota(1)), (B, namespace("other"))],
        NO_CLUSTER,
        [("GPU060", "Namespace team", "")],
    ),
    "a plain workload gets its quota from an overlay": (
        [("", namespace()), ("", deployment()), (A, quota(1)), (B, namespace("other"))],
        NO_CLUSTER,
        [("GPU060", "Namespace team", "")],
    ),
    "the quota of another overlay does not count": (
        [("", namespace()), (A, deployment()), (B, quota(1))],
        NO_CLUSTER,
        [("GPU029", "Namespace team", ""), ("GPU060", "Namespace team", "")],
    ),
    "a namespace of an overlay has the workloads of this overlay and the plain ones": (
        [(A, namespace()), (B, namespace()), (A, deployment())],
        NO_CLUSTER,
        [("GPU029", "Namespace team", A), ("GPU060", "Namespace team", A)],
    ),
    "the device plugins of two overlays never meet": (
        [(A, plugin("k8s-device-plugin")), (B, plugin("hami"))],
        NO_CLUSTER,
        [],
    ),
    "a plain device plugin meets those of all overlays": (
        [(A, plugin("hami")), (B, plugin("gpu-manager")), ("", plugin("k8s-device-plugin"))],
        NO_CLUSTER,
        [
            ("GPU047", "DaemonSet kube-system/hami", A),
            ("GPU047", "DaemonSet kube-system/gpu-manager", B),
        ],
    ),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_two_overlays_are_never_one_stack(case: str) -> None:
    objects, context, wanted = CASES[case]
    found = [(each.rule, each.subject, each.rendered) for each in judged(objects, context)]
    assert sorted(found) == sorted(wanted)


def test_a_fault_of_the_pools_is_found_in_the_settings(tmp_path: Path) -> None:
    settings, manifest = tmp_path / "settings.yaml", tmp_path / "a.yaml"
    taints = ["dedicated=gpus:NoSchedule"]
    settings.write_text(json.dumps({"pools": [{"name": "a", "gpusPerNode": 8, "taints": taints}]}))
    manifest.write_text(json.dumps(namespace()))
    run = check(str(manifest), "--config", str(settings), "--format", "json", rules=())
    (found,) = json.loads(run.output)["violations"]
    assert (run.code, found["rule"], found["file"]) == (0, "GPU030", str(settings))
