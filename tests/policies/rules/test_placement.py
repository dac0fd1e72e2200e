# ruff: noqa: E501  a table reads best one case a line
"""What a cluster's RuntimeClass, node labels and taints require of a pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_rules.rules import UNKNOWN, Context, NodeTaint, PoolFacts, Severity
from gpu_rules.rules.pools import tolerates
from tests.policies.rules.cases import (
    CONTEXT,
    CORE,
    GPU,
    POOL,
    PRIVILEGED,
    TAINT,
    TOLERATION,
    container,
    gpus,
    ids,
    paths,
    pod,
    resource,
    workload,
)
from tests.policies.rules.messages import judge

RUNTIMES: list[tuple[str | None, Any, bool]] = [
    # Columns: RuntimeClass that the stack requires, RuntimeClass that the pod names, whether it is
    # refused.
    (None, None, False),
    (None, "kata", False),
    ("", None, False),
    ("", "", False),
    ("", "nvidia", True),
    ("", "n" * 100, True),
    ("", "nvidia-cdi", False),
    ("", UNKNOWN, False),
    ("nvidia", None, True),
    ("nvidia", "", True),
    ("nvidia", "nvidia", False),
    ("nvidia", "nvidia-cdi", False),
    ("nvidia", "kata", True),
    ("nvidia", UNKNOWN, False),
]


@pytest.mark.parametrize(("needed", "named", "refused"), RUNTIMES)
def test_runtime_class(needed: str | None, named: Any, refused: bool) -> None:
    context = replace(CONTEXT, runtime_class=needed, runtime_classes=frozenset({"nvidia-cdi"}))
    fields = {} if named is None else {"runtimeClassName": named}
    wanted = ["spec.runtimeClassName"] if refused else []
    assert paths("GPU037", pod(gpus(), **fields), context) == wanted
    assert paths("GPU037", pod(container(), **fields), context) == []
    assert paths("GPU037", resource("Service"), context) == [], "it has no pod"


GPU_NODES = Context(pools=(replace(POOL, node_names=frozenset({"gpu-1"})), PoolFacts("cpu", 0)))


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (pod(container(), runtimeClassName="nvidia"), ["spec.runtimeClassName"]),
        (pod(container(), runtimeClassName="nvidia-legacy"), ["spec.runtimeClassName"]),
        (pod(container(), runtimeClassName="own"), ["spec.runtimeClassName"]),
        (pod(container(), runtimeClassName="kata"), []),
        (pod(container(), runtimeClassName=UNKNOWN), []),
        (pod(gpus(), runtimeClassName="nvidia"), []),
        (pod(gpus(UNKNOWN), runtimeClassName="nvidia"), []),
        (
            pod(container(), runtimeClassName="nvidia", resourceClaims=[{"name": "gpu"}]),
            ["spec.runtimeClassName"],
        ),
        (pod(container(), runtimeClassName="nvidia", resourceClaims=UNKNOWN), []),
        (pod(container(), runtimeClassName="nvidia", namespace="kube-system"), []),
        (
            workload("DaemonSet", container(), pod_spec={"runtimeClassName": "nvidia"}),
            ["spec.template.spec.runtimeClassName"],
        ),
        (pod(container()), []),
    ],
)
def test_the_runtime_of_gpus_is_for_pods_that_ask_for_some(
    manifest: Any, wanted: list[str]
) -> None:
    assert paths("GPU063", manifest, Context(runtime_class="own")) == wanted


@pytest.mark.parametrize(
    ("manifest", "refused"),
    [
        (pod(container(), nodeName="gpu-1"), True),
        (pod(container(**PRIVILEGED), nodeName="gpu-1"), True),
        (pod(container(), nodeName="gpu-2"), False),
        (pod(container(), nodeName=UNKNOWN), False),
        (pod(gpus(), nodeName="gpu-1"), False),
        (pod(container({"example.com/gpu": 1}), nodeName="gpu-1"), True),
        (pod(container(), resourceClaims=[{"name": "gpu"}], nodeName="gpu-1"), True),
        (pod(gpus(UNKNOWN), nodeName="gpu-1"), False),
        (pod(container(), nodeName="gpu-1", namespace="kube-system"), False),
        (pod(container()), False),
    ],
)
def test_work_without_gpus_names_no_gpu_node(manifest: Any, refused: bool) -> None:
    assert paths("GPU064", manifest, GPU_NODES) == (["spec.nodeName"] if refused else [])
    # Where the names of a pool's nodes are not known, each node may be one of them.
    refused = refused or manifest["spec"].get("nodeName") == "gpu-2"
    assert paths("GPU064", manifest, CONTEXT) == (["spec.nodeName"] if refused else [])
    assert paths("GPU064", manifest, Context()) == [], "no pool is known"


HOST = {"hostNetwork": True, "hostPID": True, "hostIPC": True}
ROOT = {"volumes": [{"name": "host-root", "hostPath": {"path": "/"}}]}
PROFILES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "legacy": ({}, HOST | ROOT),
    "general": ({}, HOST | ROOT),
    "baseline": ({}, {}),
    "restricted": ({"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}, {}),
    "netadmin": ({"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}}, HOST),
    "sysadmin": ({"privileged": True}, HOST | ROOT),
}
"""What each profile of `kubectl debug node/NAME` sets: fields of the container's security context,
and of the pod (k8s.io/kubectl pkg/cmd/debug/profiles.go; generateNodeDebugPod sets the rest).
"""


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("context", [CONTEXT, GPU_NODES], ids=["by selector", "by names"])
def test_the_tolerations_of_a_debug_pod_are_refused_too_and_all_of_it_is_trusted_where_declared(
    profile: str, context: Context
) -> None:
    secured, spec = PROFILES[profile]
    context = replace(context, infrastructure_namespaces=frozenset({"trusted"}))

    def refused(node: str, namespace: str) -> set[str]:
        given = {
            "nodeName": node,
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists"}],
        }
        debugger = container(name="debugger", securityContext=secured)
        manifest = pod(debugger, **given, **spec, namespace=namespace)
        found = judge(manifest, context)
        return {one.rule.id for one in found if one.severity is Severity.MANDATORY}

    for node in ("gpu-1", "cpu-1"):
        assert "GPU032" in refused(node, "team-a")
        assert refused(node, "trusted") == set()


def test_a_pod_with_gpus_of_any_vendor_names_no_node() -> None:
    for node in ("gpu-1", "elsewhere"):
        bad = pod(container({"amd.com/gpu": 1}), nodeName=node)
        assert paths("GPU016", bad, GPU_NODES) == ["spec.nodeName"]


def labelled(expressions: Any, fields: Any = None) -> dict[str, Any]:
    term = {"matchExpressions": expressions, "matchFields": fields}
    return affine([{k: v for k, v in term.items() if v is not None}])


def affine(terms: Any) -> dict[str, Any]:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": rule}}


def match(operator: Any, *values: Any, key: Any = "gpu") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


SELECTORS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("none", {}, []),
    ("the pool's label", {"nodeSelector": {"gpu": "a100"}}, []),
    ("another value", {"nodeSelector": {"gpu": "t4"}}, ["spec.nodeSelector"]),
    ("a label that nodes may have", {"nodeSelector": {"zone": "a"}}, []),
    ("in", labelled([match("In", "t4", "a100")]), []),
    ("not in that list", labelled([match("In", "t4")]), ["spec.affinity"]),
    ("excluded", labelled([match("NotIn", "a100")]), ["spec.affinity"]),
    ("another excluded", labelled([match("NotIn", "t4")]), []),
    ("exists", labelled([match("Exists")]), []),
    ("does not exist", labelled([match("DoesNotExist")]), ["spec.affinity"]),
    ("another does not exist", labelled([match("DoesNotExist", key="zone")]), []),
    ("greater", labelled([match("Gt", "4", key="memory")]), []),
    ("greater than that", labelled([match("Gt", "80", key="memory")]), ["spec.affinity"]),
    ("less", labelled([match("Lt", "81", key="memory")]), []),
    ("less than that", labelled([match("Lt", "80", key="memory")]), ["spec.affinity"]),
    ("greater than no number", labelled([match("Gt", "x", key="memory")]), ["spec.affinity"]),
    ("greater than nothing", labelled([match("Gt", key="memory")]), ["spec.affinity"]),
    ("no number at all", labelled([match("Gt", "4")]), ["spec.affinity"]),
    ("one of two terms fits", affine([{"matchExpressions": [match("In", "t4")]}, {"matchExpressions": [match("In", "a100")]}]), []),
    ("both of one term must fit", labelled([match("In", "a100"), match("In", "t4")]), ["spec.affinity"]),
    ("an empty term fits nothing", affine([{}]), ["spec.affinity"]),
    ("a term of fields", labelled(None, [{"key": "metadata.name"}]), []),
    ("no terms", affine([]), []),
    ("an unknown term", affine([UNKNOWN]), []),
    ("unknown expressions", labelled(UNKNOWN), []),
    ("an unknown value", labelled([match("In", UNKNOWN)]), []),
    ("an unknown key", labelled([match("In", "t4", key=UNKNOWN)]), []),
    ("an unknown operator", labelled([match(UNKNOWN, "t4")]), []),
    ("an operator nobody knows", labelled([match("Near", "t4")]), []),
    ("selector and affinity", {"nodeSelector": {"gpu": "t4"}, **labelled([match("In", "a100")])}, ["spec.nodeSelector"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "wanted"), [r[1:] for r in SELECTORS], ids=[r[0] for r in SELECTORS]
)
def test_selected_nodes(fields: dict[str, Any], wanted: list[str]) -> None:
    context = Context(
        pools=(replace(POOL, labels={"gpu": "a100", "memory": "80"}), PoolFacts("cpu", 0))
    )
    assert paths("GPU034", pod(gpus(), **fields), context) == wanted
    assert paths("GPU034", pod(container(), **fields), context) == []


def test_a_selector_of_no_pool_is_told_four_of_them() -> None:
    pools = tuple(replace(POOL, name=name) for name in "abcde")
    manifest = pod(gpus(), nodeSelector={"gpu": "t4"})
    (violation,) = (e for e in judge(manifest, Context(pools=pools)) if e.rule.id == "GPU034")
    assert violation.wanted == "labels of a or b or c or d"


def test_a_pool_of_one_gpu_each_is_one() -> None:
    context = Context(pools=(replace(POOL, gpus_per_node=1),))
    assert "GPU007" in ids(pod(gpus(2)), context)


def test_without_gpu_pools_no_selector_is_wrong() -> None:
    manifest = pod(gpus(), nodeSelector={"gpu": "t4"})
    assert (
        paths("GPU034", manifest, Context(pools=(PoolFacts("cpu", 0, labels={"gpu": "no"}),))) == []
    )


ANY = {"operator": "Exists"}
CLAIMING = {"name": "cuda", "image": "cuda:13", "resources": {"claims": [{"name": "gpu"}]}}


def owned(*owners: Any, uid: str = "1") -> dict[str, Any]:
    """Return a pod with owners; with a uid, it counts as read from a cluster."""
    made = pod(container(), tolerations=[ANY])
    made["metadata"]["uid"] = uid
    made["metadata"]["ownerReferences"] = list(owners)
    return made


KEPT: list[tuple[str, Any, list[str]]] = [
    ("no toleration", pod(container(), tolerations=[]), []),
    ("of the taint", pod(container(), tolerations=[TOLERATION]), ["spec.tolerations[0]"]),
    ("of everything", pod(container(), tolerations=[ANY]), ["spec.tolerations[0]"]),
    ("of another", pod(container(), tolerations=[{**ANY, "key": "zone"}, ANY]), ["spec.tolerations[1]"]),
    ("of another effect", pod(container(), tolerations=[{**ANY, "effect": "NoExecute"}]), []),
    ("of the taint and of everything", pod(container(), tolerations=[TOLERATION, ANY]), ["spec.tolerations[0]", "spec.tolerations[1]"]),
    ("with a GPU", pod(gpus(), tolerations=[ANY]), []),
    ("with no GPUs by number", pod(gpus(0), tolerations=[ANY]), ["spec.tolerations[0]"]),
    ("with a GPU in an init container", pod(container(), initContainers=[gpus()], tolerations=[ANY]), []),
    ("with another kind of GPU", pod(container({CORE: 100}), tolerations=[ANY]), []),
    ("with a GPU by a wrong name", pod(container({"nvidia.com/gpus": 1}), tolerations=[ANY]), []),
    ("with a device of KubeVirt", pod(container({"nvidia.com/GA102GL_A10": 1}), tolerations=[ANY]), []),
    ("with an accelerator of another kind", pod(container({"habana.ai/gaudi": 1}), tolerations=[ANY]), []),
    ("with a network card", pod(container({"rdma/hca": 1}), tolerations=[ANY]), ["spec.tolerations[0]"]),
    ("with an unreadable number", pod(gpus("one"), tolerations=[ANY]), []),
    ("with an unknown number", pod(gpus(UNKNOWN), tolerations=[ANY]), []),
    ("with unknown resources", pod(container(UNKNOWN), tolerations=[ANY]), []),
    ("with unknown requests", pod(container(None, UNKNOWN), tolerations=[ANY]), []),
    ("with a claim from a template", pod(CLAIMING, tolerations=[ANY], resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]), []),
    ("with a claim that several pods share", workload("Job", CLAIMING, pod_spec={"tolerations": [ANY], "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}), []),
    ("with a claim in an init container", pod(container(), initContainers=[CLAIMING], tolerations=[ANY], resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}]), []),
    ("with unknown claims", pod(container(), tolerations=[ANY], resourceClaims=UNKNOWN), []),
    ("with claims that are none", pod(container(), tolerations=[ANY], resourceClaims=[]), ["spec.tolerations[0]"]),
    ("unknown", pod(container(), tolerations=[UNKNOWN]), []),
    ("of everything behind an unknown one", pod(container(), tolerations=[UNKNOWN, ANY]), ["spec.tolerations[1]"]),
    ("unknown in part", pod(container(), tolerations=[{"key": UNKNOWN, **ANY}]), []),
    ("of the GPU stack", pod(container(), tolerations=[ANY], namespace="kube-system"), []),
    ("in an unknown namespace", pod(container(), tolerations=[ANY], namespace=UNKNOWN), []),
    ("a DaemonSet", workload("DaemonSet", container(), pod_spec={"tolerations": [ANY]}), []),
    ("a Deployment", workload("Deployment", container(), pod_spec={"tolerations": [ANY]}), ["spec.template.spec.tolerations[0]"]),
    ("a DaemonSet's pod", owned({"kind": "DaemonSet", "controller": True}), []),
    ("with an owner that somebody wrote", owned({"kind": "DaemonSet", "controller": True}, uid=""), ["spec.tolerations[0]"]),
    ("one that a DaemonSet owns too", owned({"kind": "Job", "controller": True}, {"kind": "DaemonSet"}), ["spec.tolerations[0]"]),
    ("a Job's pod", owned({"kind": "Job", "controller": True}), ["spec.tolerations[0]"]),
    ("of unknown owner", owned(UNKNOWN), []),
    ("of unknown owners", {**owned(), "metadata": {"ownerReferences": UNKNOWN}}, []),
    ("of an owner unknown in part", owned({"kind": UNKNOWN, "controller": True}), []),
    ("of owners that are none", owned("DaemonSet", 7), ["spec.tolerations[0]"]),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "wanted"), [r[1:] for r in KEPT], ids=[r[0] for r in KEPT])
def test_work_without_gpus_keeps_away(manifest: Any, wanted: list[str]) -> None:
    observed = bool(manifest["metadata"].get("uid"))
    pools = (PoolFacts("cpu", 0, (NodeTaint("zone"),)), POOL)
    context = Context(pools=pools, observed=observed)
    assert paths("GPU032", manifest, context) == wanted


def test_one_toleration_of_several_taints_is_told_once() -> None:
    context = Context(pools=(replace(POOL, taints=(TAINT, NodeTaint("b"))),))
    assert paths("GPU032", pod(container(), tolerations=[ANY]), context) == ["spec.tolerations[0]"]


def test_a_soft_taint_keeps_nothing_away() -> None:
    soft = Context(pools=(replace(POOL, taints=(NodeTaint(GPU, "", "PreferNoSchedule"),)),))
    assert paths("GPU032", pod(container(), tolerations=[ANY]), soft) == []
    assert paths("GPU004", pod(gpus(), tolerations=[]), soft) == []


def test_all_taints_that_are_not_tolerated_are_named() -> None:
    context = Context(pools=(replace(POOL, taints=(TAINT, NodeTaint("b"), NodeTaint("c"))),))
    (violation,) = (
        violation for violation in judge(pod(gpus()), context) if violation.rule.id == "GPU004"
    )
    assert violation.found == "no toleration for b:NoSchedule, c:NoSchedule of pool a100"


@pytest.mark.parametrize(
    ("operator", "value", "taint", "covered"),
    [
        (None, "a", "a", True),
        (None, "a", "b", False),
        (None, None, "", True),
        (None, None, "a", False),
        (None, "", "", True),
        (None, UNKNOWN, "a", True),
        ("", "a", "a", True),
        ("Equal", "a", "a", True),
        ("Equal", "a", "b", False),
        ("Exists", None, "a", True),
        ("Near", "a", "a", False),
        (UNKNOWN, "a", "b", True),
    ],
)
def test_tolerations_by_value(operator: Any, value: Any, taint: str, covered: bool) -> None:
    given = {"key": GPU, "operator": operator, "value": value}
    toleration = {key: item for key, item in given.items() if item is not None}
    assert tolerates(toleration, NodeTaint(GPU, taint)) == covered


def serving(path: str, **fields: Any) -> dict[str, Any]:
    volumes = [{"name": "a", "hostPath": {"path": path}}]
    return workload("DaemonSet", container(), pod_spec={"volumes": volumes, **fields})


SERVED: list[tuple[str, Any, bool]] = [
    ("a network plugin", serving("/etc/cni/net.d", tolerations=[]), True),
    ("its binaries", serving("/opt/cni/bin", tolerations=[]), True),
    ("a device plugin", serving("/var/lib/kubelet/device-plugins", tolerations=[]), True),
    ("anything else", serving("/var/log", tolerations=[]), False),
    ("one that tolerates", serving("/opt/cni/bin", tolerations=[TOLERATION]), False),
    ("unknown tolerations", serving("/opt/cni/bin", tolerations=UNKNOWN), False),
    ("for other nodes", serving("/opt/cni/bin", tolerations=[], nodeSelector={"gpu": "t4"}), False),
    ("for unknown nodes", serving("/opt/cni/bin", tolerations=[], nodeSelector={"gpu": UNKNOWN}), False),
    ("a Deployment", workload("Deployment", container(), pod_spec={"tolerations": [], "volumes": [{"hostPath": {"path": "/opt/cni/bin"}}]}), False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "refused"), [r[1:] for r in SERVED], ids=[r[0] for r in SERVED]
)
def test_node_services(manifest: Any, refused: bool) -> None:
    wanted = ["spec.template.spec.tolerations"] if refused else []
    assert paths("GPU033", manifest) == wanted
    adding = replace(CONTEXT, extended_resource_toleration=True)
    assert paths("GPU033", manifest, adding) == wanted, "it asks for no GPU"
