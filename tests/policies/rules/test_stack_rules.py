# ruff: noqa: E501  a table reads best one case a line
"""The rules for nodes, namespaces and the stack as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_rules.rules import UNKNOWN, Context, NodeTaint, PoolFacts
from tests.policies.rules.cases import (
    CONTEXT,
    GPU,
    POOL,
    TAINT,
    container,
    gpus,
    ids,
    paths,
    pod,
    release,
    resource,
    stack_ids,
    workload,
)
from tests.policies.rules.messages import judge, judge_stack

HARD = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
PRESENT = {"nvidia.com/gpu.present": "true"}


def node(taints: Any = None, labels: Any = None, **status: Any) -> dict[str, Any]:
    spec = {} if taints is None else {"taints": taints}
    return resource("Node", labels=labels, spec=spec, status=status)


NODES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("labelled and tainted", node(HARD, PRESENT), []),
    ("no taint", node([], PRESENT), ["spec.taints"]),
    ("no taints at all", node(None, PRESENT), ["spec.taints"]),
    ("a soft taint", node([{"key": GPU, "effect": "PreferNoSchedule"}], PRESENT), ["spec.taints"]),
    ("a taint that ends pods", node([{"key": GPU, "effect": "NoExecute"}], PRESENT), []),
    ("by its capacity", node(None, None, capacity={GPU: "8"}), ["spec.taints"]),
    ("by its capacity beside cpu", node(None, None, capacity={"cpu": 8, GPU: 8}), ["spec.taints"]),
    ("by a crumb of it", node(None, None, capacity={GPU: "1m"}), ["spec.taints"]),
    ("by what can be allocated", node(None, None, allocatable={GPU: 8}), ["spec.taints"]),
    ("of another kind", node(None, None, capacity={"amd.com/gpu": 8}), ["spec.taints"]),
    ("none left", node(None, None, capacity={GPU: "0"}), []),
    ("not a GPU node", node(None, {"nvidia.com/gpu.present": "false"}), []),
    ("unknown taints", node(UNKNOWN, PRESENT), []),
    ("an unknown effect", node([{"key": GPU, "effect": UNKNOWN}], PRESENT), []),
    ("of a version not given", {**node(None, PRESENT), "apiVersion": ""}, ["spec.taints"]),
    ("another kind of object", {**node(None, PRESENT), "kind": "NodeClass"}, []),
    ("another group", {**node(None, PRESENT), "apiVersion": "example.com/v1"}, []),
]


@pytest.mark.parametrize(("manifest", "wanted"), [r[1:] for r in NODES], ids=[r[0] for r in NODES])
def test_gpu_nodes_are_tainted(manifest: Any, wanted: list[str]) -> None:
    assert paths("GPU031", manifest, Context()) == wanted


def test_a_node_with_mig_devices_is_to_have_the_taint_of_its_pool() -> None:
    mig = node(None, None, capacity={"nvidia.com/mig-1g.5gb": 7})
    (violation,) = judge(mig, Context(pools=(replace(POOL, labels={}),)))
    assert (violation.rule.id, violation.wanted) == ("GPU031", str(TAINT))
    (violation,) = judge(mig, Context())
    assert violation.wanted == f"{GPU}=present:NoSchedule"


def test_a_gpu_node_has_the_labels_of_a_pool() -> None:
    context = Context(
        pools=(replace(POOL, labels={"a": "1", "b": "2"}), PoolFacts("cpu", 0, labels={"c": "3"}))
    )
    both = {**PRESENT, "a": "1", "b": "2"}
    assert paths("GPU031", node(HARD, both), context) == []
    assert paths("GPU031", node(HARD, {**both, "b": "3"}), context) == ["metadata.labels"]
    assert paths("GPU031", node(HARD, {**PRESENT, "c": "3"}), context) == ["metadata.labels"]
    assert paths("GPU031", node(HARD, {**PRESENT, "a": UNKNOWN}), context) == []
    assert paths("GPU031", node(HARD, PRESENT), Context(pools=(PoolFacts("a", 8),))) == []


def test_a_gpu_node_is_told_the_labels_of_all_pools() -> None:
    pools = (replace(POOL, labels={"a": "1", "b": "2"}), replace(POOL, labels={"a": "3"}))
    (violation,) = judge(node(HARD, PRESENT), Context(pools=pools))
    assert violation.wanted == "a=1, b=2 or a=3"


@pytest.mark.parametrize(
    ("taints", "refused"),
    [
        (HARD, False),
        ([{"key": "example.com/gpu", "effect": "NoSchedule"}], True),
        ([{"key": "example.com/gpu", "effect": "NoSchedule"}, *HARD], False),
        ([{"key": "example.com/gpu", "effect": "PreferNoSchedule"}], False),
        ([{"key": UNKNOWN, "effect": "NoSchedule"}], False),
        (UNKNOWN, False),
    ],
)
def test_the_taints_key_is_the_resource(taints: Any, refused: bool) -> None:
    assert paths("GPU030", node(taints, PRESENT), Context()) == (["spec.taints"] if refused else [])
    assert paths("GPU030", node(taints), Context()) == []
    other = {**node(taints, PRESENT), "kind": "NodeClass"}
    assert paths("GPU030", other, Context()) == []


def test_all_keys_of_the_taints_are_shown_and_cut() -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("a", "b" * 200)]
    (violation,) = judge(node(taints, PRESENT), Context())
    assert violation.found == f"a, {'b' * 117}, none of which is a GPU resource"


def test_the_pools_taints_are_judged_once_for_the_stack() -> None:
    own = NodeTaint("example.com/gpu")
    pools = (
        POOL,
        replace(POOL, name="b", taints=(own,)),
        PoolFacts("cpu", 0, (own,)),
        PoolFacts("c", 8),
        replace(POOL, name="d", taints=(own, TAINT)),
    )
    (violation,) = judge_stack([], Context(pools=pools))
    assert (violation.rule.id, violation.subject, violation.path) == (
        "GPU030",
        "Pool b",
        "pools[1].taints",
    )


LEVEL = "pod-security.kubernetes.io/enforce"
TEAM = resource("Namespace", name="team-a", labels={LEVEL: "baseline"})


@pytest.mark.parametrize(
    ("amount", "rule"),
    [("two", "GPU009"), (-1, "GPU008"), ("1.5", None), (UNKNOWN, None), (4, None)],
)
def test_the_limits_of_a_namespace_are_numbers(amount: Any, rule: str | None) -> None:
    wanted = [rule] if rule else []
    hard = {f"requests.{GPU}": amount, "requests.cpu": "two"}
    assert ids(quota(hard), Context()) == wanted
    limits = resource(
        "LimitRange", spec={"limits": [{"type": "PersistentVolumeClaim", "max": {GPU: amount}}]}
    )
    assert ids(limits, Context()) == wanted


def autoscaler(most: Any, **target: Any) -> dict[str, Any]:
    spec = {
        "scaleTargetRef": {"kind": "Deployment", "name": "train", **target},
        "maxReplicas": most,
    }
    return resource("HorizontalPodAutoscaler", "autoscaling/v2", namespace="team-a", spec=spec)


@pytest.mark.parametrize(
    ("scaler", "found"),
    [
        (autoscaler(4), []),
        (autoscaler(5), ["GPU041 ResourceQuota team-a/train"]),
        (autoscaler(17), ["GPU040 Deployment team-a/train", "GPU041 ResourceQuota team-a/train"]),
        (autoscaler(17, name="other"), []),
        (autoscaler(17, kind="StatefulSet"), []),
        (autoscaler(UNKNOWN), []),
        (autoscaler("many"), []),
    ],
)
def test_what_an_autoscaler_may_add_is_counted(scaler: Any, found: list[str]) -> None:
    serving = workload("Deployment", gpus(), namespace="team-a", replicas=1)
    assert stack_ids(serving, scaler, quota(COUNTED)) == found


def quota(hard: Any, namespace: Any = "team-a", **spec: Any) -> dict[str, Any]:
    return resource("ResourceQuota", namespace=namespace, spec={"hard": hard, **spec})


USER = pod(gpus(), namespace="team-a")
CLAIM = resource(
    "ResourceClaim",
    "resource.k8s.io/v1",
    namespace="team-a",
    spec={"devices": {"requests": [{"exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
)
COUNTED = {f"requests.{GPU}": 4}
QUOTAS: list[tuple[str, list[Any], list[str]]] = [
    ("no quota", [TEAM, USER], ["GPU029 Namespace team-a"]),
    ("whatever the order", [USER, TEAM], ["GPU029 Namespace team-a"]),
    ("a quota", [TEAM, USER, quota(COUNTED)], []),
    ("a silent one", [TEAM, USER, quota({GPU: 4})], ["GPU029 Namespace team-a"]),
    ("on cpu", [TEAM, USER, quota({"requests.cpu": 4})], ["GPU029 Namespace team-a"]),
    ("of another namespace", [TEAM, USER, quota(COUNTED, "b")], ["GPU029 Namespace team-a"]),
    ("on MIG devices", [TEAM, USER, quota({"requests.nvidia.com/mig-1g.5gb": 4})], ["GPU029 Namespace team-a"]),
    ("on other GPUs", [TEAM, USER, quota({"requests.amd.com/gpu": 4})], ["GPU029 Namespace team-a"]),
    ("on pods that end", [TEAM, USER, quota(COUNTED, scopes=["Terminating"])], ["GPU029 Namespace team-a"]),
    ("on pods of a class", [TEAM, USER, quota(COUNTED, scopeSelector={"matchExpressions": [{}]})], ["GPU029 Namespace team-a"]),
    ("of no number", [TEAM, USER, quota({f"requests.{GPU}": "two"})], ["GPU029 Namespace team-a"]),
    ("with empty scopes", [TEAM, USER, quota(COUNTED, scopes=[])], []),
    ("of unknown scopes", [TEAM, USER, quota(COUNTED, scopes=UNKNOWN)], []),
    ("of one of two resources", [TEAM, USER, pod(container({"amd.com/gpu": 1}), namespace="team-a"), quota(COUNTED)], ["GPU029 Namespace team-a"]),
    ("a claim", [TEAM, CLAIM], ["GPU029 Namespace team-a"]),
    ("a claim, with a quota on its class", [TEAM, CLAIM, quota({"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": 4})], []),
    ("a claim, with a quota on another class", [TEAM, CLAIM, quota({"nic.deviceclass.resource.k8s.io/devices": 4})], ["GPU029 Namespace team-a"]),
    ("a claim for a network card", [TEAM, {**CLAIM, "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "nic"}}]}}}], []),
    ("unknown", [TEAM, USER, quota(UNKNOWN)], []),
    ("of an unknown namespace", [TEAM, USER, quota(COUNTED, UNKNOWN)], []),
    ("no GPUs", [TEAM, pod(container(), namespace="team-a")], []),
    ("a namespace of others", [USER], []),
    ("an unknown namespace", [TEAM, pod(gpus(), namespace=UNKNOWN)], []),
    ("no namespace", [TEAM, pod(gpus())], []),
    ("the GPU stack's own", [resource("Namespace", name="kube-system"), pod(gpus(), namespace="kube-system")], []),
    ("another kind of that name", [resource("Secret", name="team-a"), USER], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifests", "wanted"), [r[1:] for r in QUOTAS], ids=[r[0] for r in QUOTAS]
)
def test_a_namespace_with_gpus_has_a_quota(manifests: Any, wanted: list[str]) -> None:
    assert stack_ids(*manifests) == wanted


def test_the_workload_that_needs_the_quota_is_named() -> None:
    first = workload("Deployment", gpus(), name="first", namespace="team-a")
    (violation,) = judge_stack([TEAM, first, USER], CONTEXT)
    assert violation.found == f"no quota for {GPU}, which Deployment first requests"


def asks(count: int, **fields: Any) -> dict[str, Any]:
    return workload("Deployment", gpus(), replicas=count, **{"namespace": "team-a", **fields})


WITHIN: list[tuple[str, list[Any], list[str]]] = [
    ("all of it", [quota(COUNTED), asks(4)], []),
    ("one more", [quota(COUNTED), asks(5)], ["GPU041 ResourceQuota team-a/train"]),
    ("together", [quota(COUNTED), asks(3), asks(2, name="b")], ["GPU041 ResourceQuota team-a/train"]),
    ("elsewhere", [quota(COUNTED), asks(5, namespace="b")], []),
    ("with scopes", [quota(COUNTED, scopes=["NotTerminating"]), asks(5)], []),
    ("behind one with scopes", [quota(COUNTED, scopes=["NotTerminating"]), quota(COUNTED), asks(5)], ["GPU041 ResourceQuota team-a/train"]),
    ("with a selector", [quota(COUNTED, scopeSelector={"matchExpressions": []}), asks(5)], []),
    ("with unknown scopes", [quota(COUNTED, scopes=UNKNOWN), asks(5)], []),
    ("unknown", [quota({f"requests.{GPU}": UNKNOWN}), asks(5)], []),
    ("unreadable", [quota({f"requests.{GPU}": "four"}), asks(5)], []),
    ("a silent one", [quota({f"limits.{GPU}": 4}), asks(5)], []),
    ("a silent one without a prefix", [quota({GPU: 4}), asks(5)], []),
    ("of nothing", [quota({f"requests.{GPU}": 0}), asks(1)], ["GPU041 ResourceQuota team-a/train"]),
    ("of another resource", [quota({"requests.amd.com/gpu": 0}), asks(1)], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifests", "wanted"), [r[1:] for r in WITHIN], ids=[r[0] for r in WITHIN]
)
def test_workloads_fit_into_the_quota(manifests: Any, wanted: list[str]) -> None:
    assert stack_ids(*manifests) == wanted


@pytest.mark.parametrize(
    ("name", "labels", "wanted"),
    [
        ("team-a", {LEVEL: "baseline"}, []),
        ("team-a", {LEVEL: "restricted"}, []),
        ("team-a", {LEVEL: "privileged"}, ["privileged"]),
        ("team-a", {LEVEL: "strict"}, ["no level"]),
        ("team-a", {}, ["no level"]),
        ("team-a", None, ["no level"]),
        ("team-a", UNKNOWN, []),
        ("team-a", {LEVEL: UNKNOWN}, []),
        ("kube-system", {LEVEL: "privileged"}, []),
    ],
)
def test_pod_security(name: str, labels: Any, wanted: list[str]) -> None:
    user = pod(gpus(), namespace=name)
    counted = quota(COUNTED, name)
    stack = [resource("Namespace", name=name, labels=labels), user, counted]
    violations = judge_stack(stack, CONTEXT)
    assert [violation.found.partition(" in ")[0] for violation in violations] == wanted
    assert all(violation.path == f"metadata.labels[{LEVEL}]" for violation in violations)


OPERATOR = release()
BARE = release("nvidia-device-plugin", version="0.20.0")


def plugin(image: str, selector: Any = None, name: str = "plugin", **fields: Any) -> dict[str, Any]:
    pod_spec = {"nodeSelector": selector} if selector else {}
    return workload("DaemonSet", container(image=image), name=name, pod_spec=pod_spec, **fields)


NVIDIA = plugin("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", name="nvidia")
TENCENT = plugin("tkestack/gpu-manager@sha256:0", name="tencent")
APART = plugin("registry:5000/tkestack/gpu-manager", {"gpus": "vcuda"}, name="tencent")
WHOLE = release("nvidia-device-plugin", values={"nodeSelector": {"gpus": "whole"}})
PLUGINS: list[tuple[str, list[Any], list[str]]] = [
    ("one", [OPERATOR], []),
    ("two releases", [OPERATOR, BARE], ["GPU047 Release nvidia-device-plugin"]),
    ("the operator without its plugin", [release(values={"devicePlugin": {"enabled": False}}), BARE], []),
    ("HAMi beside", [OPERATOR, release("hami")], ["GPU047 Release hami"]),
    ("two DaemonSets of one kind, one a pool", [NVIDIA, {**NVIDIA}], []),
    ("two kinds", [NVIDIA, TENCENT], ["GPU047 DaemonSet tencent"]),
    ("a release and a DaemonSet", [BARE, TENCENT], ["GPU047 DaemonSet tencent"]),
    ("a release and its own DaemonSet", [BARE, NVIDIA], []),
    ("kept apart", [WHOLE, APART], []),
    ("two kept apart, and one for all nodes", [WHOLE, APART, release("hami")], ["GPU047 Release hami"] * 2),
    ("not kept apart", [release("nvidia-device-plugin", values={"nodeSelector": {"zone": "a"}}), APART], ["GPU047 DaemonSet tencent"]),
    ("the same selector", [release("nvidia-device-plugin", values={"nodeSelector": {"gpus": "vcuda"}}), APART], ["GPU047 DaemonSet tencent"]),
    ("another image", [NVIDIA, plugin("example.com/gpu-manager-exporter:1")], []),
    ("a Deployment of that image", [NVIDIA, workload("Deployment", container(image="gpu-manager"))], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifests", "wanted"), [r[1:] for r in PLUGINS], ids=[r[0] for r in PLUGINS]
)
def test_one_device_plugin_on_a_node(manifests: Any, wanted: list[str]) -> None:
    assert stack_ids(*manifests) == wanted


def test_the_items_of_a_list_belong_to_the_stack() -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [TEAM, USER]}
    assert stack_ids(both) == ["GPU029 Namespace team-a"]


def test_an_annotation_exempts_from_a_rule_over_the_stack() -> None:
    exempted = resource(
        "Namespace",
        name="team-a",
        labels={LEVEL: "baseline"},
        annotations={"exempt.gpu-cluster/GPU029": "2030-01-01 trial"},
    )
    (violation,) = judge_stack([exempted, USER], CONTEXT)
    assert (violation.severity, violation.exemption) == ("advisory", "until 2030-01-01: trial")
