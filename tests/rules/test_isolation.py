# ruff: noqa: E501  a table reads best one case a line
"""Ways past the device plugin, and what the nodes' runtime, labels and taints ask of a pod."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.rules import UNKNOWN, Context, Mig, Plugin, Pool, Sharing, Taint
from policies.rules.pools import tolerates
from tests.rules.cases import (
    CONTEXT,
    CORE,
    GPU,
    MIG,
    POOL,
    SHARED,
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
from tests.rules.messages import judge

PRIVILEGED = {"securityContext": {"privileged": True}}


def on_host(path: Any, *containers: Any, **fields: Any) -> dict[str, Any]:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": path}}]
    return pod(*containers, volumes=volumes, **fields)


HOST_PATHS: list[tuple[str, bool, bool]] = [
    # the path, refused in any pod, refused in one with GPUs
    ("/dev/nvidia0", True, True),
    ("/dev/nvidia" + "0" * 80, True, True),
    ("/dev/nvidia-caps", True, True),
    ("/dev/", False, True),
    ("//dev//nvidiactl", True, True),
    ("/dev/../dev/nvidia0", True, True),
    ("/dev/shm", False, False),
    ("/run/nvidia/driver", True, True),
    ("/var/run/nvidia", True, True),
    ("/var/lib/kubelet/device-plugins", True, True),
    ("/var/lib/kubelet", False, True),
    ("/var/lib/kubelet/pod-resources", False, False),
    ("/var/run/docker.sock", True, True),
    ("/run/containerd/containerd.sock", True, True),
    ("/run/crio/crio.sock", True, True),
    ("/run/k3s/containerd/containerd.sock", True, True),
    ("/run/cri-dockerd.sock", True, True),
    ("/run/containerd", False, True),
    ("/run", False, True),
    ("/", False, True),
    ("/proc/1/root/dev", True, True),
    ("/proc/self/root", True, True),
    ("/proc/17/cwd/dev/nvidia0", True, True),
    ("/proc/1/rootless", False, False),
    ("/proc", False, False),
    ("/dev/dri", True, True),
    ("/dev/kfd", True, True),
    ("/dev/char", True, True),
    ("/dev/null", True, True),
    ("/etc/cdi", True, True),
    ("/var/run/cdi", True, True),
    ("/etc/containerd/conf.d", True, True),
    ("/etc/kubernetes/manifests", True, True),
    ("/etc", False, True),
    ("/run/podman/podman.sock", True, True),
    ("/run/containerd/containerd.sock.ttrpc", True, True),
    ("/data", False, False),
    ("/var/log", False, False),
]


@pytest.mark.parametrize(("path", "always", "beside"), HOST_PATHS)
def test_host_paths(path: str, always: bool, beside: bool) -> None:
    place = ["spec.volumes[1].hostPath.path"]
    assert paths("GPU036", on_host(path, container(), tolerations=[])) == (place if always else [])
    assert paths("GPU036", on_host(path, gpus())) == (place if beside else [])
    tolerant = on_host(path, container())
    assert paths("GPU036", tolerant) == (place if beside else []), "it may run on GPU nodes"
    tolerant["metadata"]["namespace"] = "kube-system"
    assert paths("GPU036", tolerant) == []


def test_nodes_without_a_taint_take_every_pod_that_their_labels_do_not_rule_out() -> None:
    untainted = Context(pools=(POOL, replace(POOL, name="open", taints=(), labels={"gpu": "t4"})))
    place = ["spec.volumes[1].hostPath.path"]
    plain = on_host("/dev", container(), tolerations=[])
    assert paths("GPU036", plain, untainted) == place
    elsewhere = on_host("/dev", container(), tolerations=[], nodeSelector={"gpu": "a100"})
    assert paths("GPU036", elsewhere, untainted) == []
    selecting = on_host("/dev", container(**PRIVILEGED), nodeSelector={"gpu": "t4"}, tolerations=[])
    assert paths("GPU036", selecting, untainted) == place


def test_a_host_path_that_is_not_known_is_not_judged() -> None:
    assert paths("GPU036", on_host(UNKNOWN, gpus())) == []
    assert paths("GPU036", pod(gpus(), volumes=UNKNOWN)) == []
    assert paths("GPU036", on_host("/", container(), tolerations=[UNKNOWN])) == []


def capable(*names: Any) -> dict[str, Any]:
    return {"securityContext": {"capabilities": {"add": list(names)}}}


@pytest.mark.parametrize("source", ["hostPath", "local"])
@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/dev/nvidia0", True),
        ("//dev/./", True),
        ("/", True),
        ("/proc/1/root", True),
        ("/run/containerd/containerd.sock", True),
        ("/mnt/disks/a", False),
        ("/var/lib/data", False),
        ("", False),
        (UNKNOWN, False),
    ],
)
def test_a_volume_that_is_claimed_leads_to_no_gpus(source: str, path: Any, refused: bool) -> None:
    volume = resource("PersistentVolume", spec={source: {"path": path}})
    assert paths("GPU066", volume) == ([f"spec.{source}.path"] if refused else [])
    assert paths("GPU066", {**volume, "apiVersion": "example.com/v1"}) == []


def test_the_path_of_a_volume_is_shown_cut() -> None:
    volume = resource("PersistentVolume", spec={"local": {"path": "/dev/nvidia" + "0" * 80}})
    (violation,) = judge(volume, CONTEXT)
    assert violation.found == ("/dev/nvidia" + "0" * 80)[:80]


PRIVILEGES: list[tuple[str, Any, bool]] = [
    ("with a GPU", pod(gpus(**PRIVILEGED)), True),
    ("beside one with a GPU", pod(gpus(), container(**PRIVILEGED)), True),
    ("in an init container", pod(gpus(), initContainers=[container(**PRIVILEGED)]), True),
    ("able to mount", pod(gpus(**capable("SYS_ADMIN"))), True),
    ("able to mount, by its long name", pod(gpus(**capable("NET_ADMIN", "CAP_SYS_ADMIN"))), True),
    ("able to do all", pod(gpus(**capable("all"))), True),
    ("able to do something else", pod(gpus(**capable("NET_ADMIN"))), False),
    ("unknown capabilities", pod(gpus(**capable(UNKNOWN))), False),
    ("without GPUs", pod(container(**PRIVILEGED)), False),
    ("not privileged", pod(gpus(securityContext={"privileged": False})), False),
    ("of the GPU stack", pod(gpus(**PRIVILEGED), namespace="gpu-operator"), False),
    ("in an unknown namespace", pod(gpus(**PRIVILEGED), namespace=UNKNOWN), False),
    ("unknown", pod(gpus(securityContext={"privileged": UNKNOWN})), False),
]


@pytest.mark.parametrize(
    ("manifest", "refused"), [r[1:] for r in PRIVILEGES], ids=[r[0] for r in PRIVILEGES]
)
def test_privileged_containers(manifest: Any, refused: bool) -> None:
    assert ("GPU022" in ids(manifest)) == refused


@pytest.mark.parametrize(
    ("kind", "fields", "wanted"),
    [
        (
            "ConfigMap",
            {"data": {"NVIDIA_VISIBLE_DEVICES": "all"}},
            ["data[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": "void"}}, []),
        ("ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": ""}}, []),
        ("ConfigMap", {"data": {"NVIDIA_VISIBLE_DEVICES": UNKNOWN}}, []),
        ("ConfigMap", {"data": {"A": "all"}}, []),
        ("ConfigMap", {}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "YWxs"}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "bm9uZQ=="}}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "dm9\r\npZA=="}}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "none"}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "no!ne"}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        (
            "Secret",
            {"data": {"NVIDIA_VISIBLE_DEVICES": "bm!9uZQ=="}},
            ["data[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": 7}}, ["data[NVIDIA_VISIBLE_DEVICES]"]),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": UNKNOWN}}, []),
        ("Secret", {"data": {"A": "YWxs"}}, []),
        ("Secret", {"data": {"NVIDIA_VISIBLE_DEVICES": "YWxs"}, "stringData": UNKNOWN}, []),
        (
            "Secret",
            {
                "data": {"NVIDIA_VISIBLE_DEVICES": "YWxs"},
                "stringData": {"NVIDIA_VISIBLE_DEVICES": "none"},
            },
            [],
        ),
        (
            "Secret",
            {
                "data": {"NVIDIA_VISIBLE_DEVICES": "bm9uZQ=="},
                "stringData": {"NVIDIA_VISIBLE_DEVICES": "all"},
            },
            ["stringData[NVIDIA_VISIBLE_DEVICES]"],
        ),
        (
            "ConfigMap",
            {"data": {"NVIDIA_VISIBLE_DEVICES": "bm9uZQ=="}},
            ["data[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("ConfigMap", {"stringData": {"NVIDIA_VISIBLE_DEVICES": "all"}}, []),
        (
            "Secret",
            {"stringData": {"NVIDIA_VISIBLE_DEVICES": "0"}},
            ["stringData[NVIDIA_VISIBLE_DEVICES]"],
        ),
        ("ConfigMap", {"namespace": "gpu-operator", "data": {"NVIDIA_VISIBLE_DEVICES": "all"}}, []),
        ("Service", {"data": {"NVIDIA_VISIBLE_DEVICES": "all"}}, []),
    ],
)
def test_the_variable_by_reference(kind: str, fields: dict[str, Any], wanted: list[str]) -> None:
    assert paths("GPU035", resource(kind, **fields)) == wanted


RUNTIMES: list[tuple[str | None, Any, bool]] = [
    # what the stack needs, what the pod names, refused
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


GPU_NODES = Context(pools=(replace(POOL, node_names=frozenset({"gpu-1"})), Pool("cpu", 0)))


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
        (pod(container(), runtimeClassName="nvidia", resourceClaims=[{"name": "gpu"}]), []),
        (pod(container(), runtimeClassName="nvidia", namespace="gpu-operator"), []),
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
        (pod(container({"example.com/gpu": 1}), nodeName="gpu-1"), False),
        (pod(container(), nodeName="gpu-1", namespace="kube-system"), False),
        (pod(container()), False),
    ],
)
def test_work_without_gpus_names_no_gpu_node(manifest: Any, refused: bool) -> None:
    assert paths("GPU064", manifest, GPU_NODES) == (["spec.nodeName"] if refused else [])
    assert paths("GPU064", manifest, CONTEXT) == [], "names of nodes are not known"


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
    context = Context(pools=(replace(POOL, labels={"gpu": "a100", "memory": "80"}), Pool("cpu", 0)))
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
    assert paths("GPU034", manifest, Context(pools=(Pool("cpu", 0, labels={"gpu": "no"}),))) == []


ANY = {"operator": "Exists"}
CLAIMING = {"name": "cuda", "image": "cuda:13", "resources": {"claims": [{"name": "gpu"}]}}


def owned(*owners: Any) -> dict[str, Any]:
    made = pod(container(), tolerations=[ANY])
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
    ("one that a DaemonSet owns too", owned({"kind": "Job", "controller": True}, {"kind": "DaemonSet"}), ["spec.tolerations[0]"]),
    ("a Job's pod", owned({"kind": "Job", "controller": True}), ["spec.tolerations[0]"]),
    ("of unknown owner", owned(UNKNOWN), []),
    ("of unknown owners", {**owned(), "metadata": {"ownerReferences": UNKNOWN}}, []),
    ("of an owner unknown in part", owned({"kind": UNKNOWN, "controller": True}), []),
    ("of owners that are none", owned("DaemonSet", 7), ["spec.tolerations[0]"]),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "wanted"), [r[1:] for r in KEPT], ids=[r[0] for r in KEPT])
def test_work_without_gpus_keeps_away(manifest: Any, wanted: list[str]) -> None:
    context = Context(pools=(Pool("cpu", 0, (Taint("zone"),)), POOL))
    assert paths("GPU032", manifest, context) == wanted


def test_one_toleration_of_several_taints_is_told_once() -> None:
    context = Context(pools=(replace(POOL, taints=(TAINT, Taint("b"))),))
    assert paths("GPU032", pod(container(), tolerations=[ANY]), context) == ["spec.tolerations[0]"]


def test_a_soft_taint_keeps_nothing_away() -> None:
    soft = Context(pools=(replace(POOL, taints=(Taint(GPU, "", "PreferNoSchedule"),)),))
    assert paths("GPU032", pod(container(), tolerations=[ANY]), soft) == []
    assert paths("GPU004", pod(gpus(), tolerations=[]), soft) == []


def test_all_taints_that_are_not_tolerated_are_named() -> None:
    context = Context(pools=(replace(POOL, taints=(TAINT, Taint("b"), Taint("c"))),))
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
    assert tolerates(toleration, Taint(GPU, taint)) == covered


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


SHARING: list[tuple[str, dict[str, Any], Plugin | None, list[str]]] = [
    ("unknown plugin", {MIG: 1}, None, []),
    ("no sharing", {GPU: 1}, Plugin(), []),
    ("no sharing, shared name", {SHARED: 1}, Plugin(), ["GPU043"]),
    ("shared, not renamed", {GPU: 1}, Plugin(sharing=Sharing.MPS), []),
    ("shared, not renamed, two", {GPU: 2}, Plugin(sharing=Sharing.MPS), ["GPU023"]),
    ("not shared, two", {GPU: 2}, Plugin(), []),
    ("shared name, not renamed", {SHARED: 1}, Plugin(sharing=Sharing.MPS), ["GPU043"]),
    ("renamed", {SHARED: 1}, Plugin(sharing=Sharing.TIME_SLICING, renamed=True), []),
    ("renamed, old name", {GPU: 1}, Plugin(sharing=Sharing.TIME_SLICING, renamed=True), ["GPU043"]),
    ("renamed, two", {SHARED: 2}, Plugin(sharing=Sharing.TIME_SLICING, renamed=True), ["GPU023"]),
    ("renamed without sharing", {GPU: 1}, Plugin(renamed=True), []),
    ("MIG by name", {MIG: 1}, Plugin(mig=Mig.MIXED), []),
    ("MIG not by name", {MIG: 1}, Plugin(mig=Mig.SINGLE), ["GPU044"]),
    ("no MIG", {MIG: 1}, Plugin(), ["GPU044"]),
    ("two MIG devices", {MIG: 2}, Plugin(mig=Mig.MIXED), ["GPU045"]),
    ("two kinds of them", {MIG: 1, "nvidia.com/mig-2g.20gb": 1}, Plugin(mig=Mig.MIXED), ["GPU045"]),
    ("an unknown number", {MIG: UNKNOWN}, Plugin(mig=Mig.MIXED), []),
]


@pytest.mark.parametrize(
    ("limits", "plugin", "wanted"), [r[1:] for r in SHARING], ids=[r[0] for r in SHARING]
)
def test_the_names_that_a_plugin_advertises(limits: Any, plugin: Any, wanted: list[str]) -> None:
    assert ids(pod(container(limits)), Context(pools=(POOL,), plugin=plugin)) == wanted


def test_what_has_no_pod_asks_for_no_name() -> None:
    assert ids(resource("ConfigMap"), Context(plugin=Plugin())) == []


def test_a_name_that_the_cluster_advertises_needs_no_strategy() -> None:
    context = Context(plugin=Plugin(), resource_names=frozenset({MIG}))
    assert ids(pod(container({MIG: 1})), context) == []


FILE = "version: v1\nsharing:\n  timeSlicing:\n    {more}\n    resources: [{{name: nvidia.com/gpu, replicas: 4}}]\n"
WEAK = FILE.format(more="renameByDefault: false")
STRICT = FILE.format(more="failRequestsGreaterThanOne: true")
NO = FILE.format(more="failRequestsGreaterThanOne: false")


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (WEAK, True),
        (NO, True),
        (STRICT, False),
        ("version: v1\nflags: {migStrategy: none}\n", False),
        (
            "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n",
            False,
        ),
        (WEAK.replace("version: v1", "version: v2"), False),
        (WEAK.replace("[{name: nvidia.com/gpu, replicas: 4}]", "[]"), False),
        (WEAK + "# " + "x" * 65536, False),
        ("a: &a [1]\nb: *a\n" + WEAK, False),
        ("[" * 40 + "]" * 40, False),
        ("---\na: 1\n---\nb: 2\n", False),
        (": not: yaml: [", False),
        ("just text", False),
        (7, False),
        (UNKNOWN, False),
    ],
)
def test_the_plugins_file(content: Any, refused: bool) -> None:
    key = "sharing.timeSlicing.failRequestsGreaterThanOne"
    wanted = [f"data[config].{key}"] if refused else []
    assert paths("GPU042", resource("ConfigMap", data={"config": content})) == wanted
    assert paths("GPU042", resource("Secret", data={"config": content})) == []
    other = resource("ConfigMap", "example.com/v1", data={"config": content})
    assert paths("GPU042", other) == []


@pytest.mark.parametrize(("content", "shown"), [(NO, "false"), (WEAK, "nothing, which is false")])
def test_what_the_plugins_file_says_of_several_shares(content: str, shown: str) -> None:
    (violation,) = judge(resource("ConfigMap", data={"config": content}), CONTEXT)
    assert violation.found == shown
