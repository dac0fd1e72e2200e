"""Cures of what stops a run in the cluster are followed: the same step then ends well."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pulumi
import pytest

from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.charts.contents import of_folder
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import (
    MigLayoutsRequest,
    Operands,
    Phase,
    RolledHost,
    RolloutRequest,
)
from gpu_cluster.driver_daemonset import driver_daemonset
from gpu_cluster.hosts.reboot.reboot import Turns, give_back
from gpu_cluster.kubernetes import api as kubernetes
from gpu_cluster.kubernetes import grammar
from gpu_cluster.kubernetes.api import Client, ClusterError
from gpu_cluster.kubernetes.resources import MIG_LABEL, MIG_STATE
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import drain, inspect, node_scheduling, taints
from gpu_cluster.nodes.control_planes import require_members, wait_members
from gpu_cluster.nodes.inspect import CORDONED
from gpu_cluster.platforms.requests import (
    Expected,
    HelmRelease,
    PresenceRequest,
    RuntimeClassRequest,
)
from gpu_cluster.release import (
    admitted,
    clear,
    clearing,
    definitions,
    helm_record,
    presence,
    runtime_class,
)
from gpu_cluster.release.objects import observe_objects
from gpu_cluster.rollout import operands
from gpu_cluster.rollout.mig_layouts import MigLayoutsRun
from gpu_cluster.rollout.mig_targets import MigTarget
from gpu_cluster.rollout.rollout import RolloutRun
from gpu_cluster.rollout.target import refuse
from gpu_cluster.rollout.waves import not_begun
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.validation import tests
from gpu_cluster.validation.measurement import Outcome
from gpu_rules.faults import Fault
from tests.fixtures.api import client
from tests.fixtures.documents import KEYS, stack_document
from tests.proofs.advice.api import Objects, node, pod, static_pod
from tests.proofs.advice.following import follow_cure, named
from tests.proofs.advice.rows import Record, row_of
from tests.proofs.platform.chart_folders import FAKE_CHARTS

Json = dict[str, Any]
Step = Callable[[Objects], Awaitable[Any]]
Act = Callable[[Objects], None]
NODE = "/api/v1/nodes/gpu-1"
POD = "/api/v1/namespaces/team-a/pods/web"
SYSTEM = "/api/v1/namespaces/kube-system/pods"
CLASS = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
RELEASE = HelmRelease(name="nvidia-device-plugin", namespace="gpu")
SECRET = "/api/v1/namespaces/gpu/secrets/sh.helm.release.v1.nvidia-device-plugin.v1"
OPERANDS = Operands(spaces=(), namespace="team-a", labels={"app": "plugin"})
LAYOUT = "all-1g.5gb"
READY: Json = {"conditions": [{"type": "Ready", "status": "True"}]}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def record(status: str = "deployed", manifest: str = "", config: Json | None = None) -> Json:
    """Return the Secret in which Helm records a release."""
    release = {"info": {"status": status}, "manifest": manifest, "config": config or {}}
    return {
        "metadata": {
            "name": SECRET.rpartition("/")[2],
            "namespace": "gpu",
            "labels": {"owner": "helm", "name": RELEASE.name, "version": "1"},
        },
        "type": "helm.sh/release.v1",
        "data": {"release": helm_record.encode_release(release)},
    }


@dataclass(frozen=True)
class Row:
    """A step that fails, and what its cure says.

    Attributes:
        words: Words of the cure.
        objects: Objects with the fault.
        step: The step.
        act: What the cure says, as a change of the objects.
        cured: The step after an edit of the stack file. None: the same step.
        refused: Requests that are refused, as in `Objects`.
        kept: Objects that stay, as in `Objects`.
    """

    words: str
    objects: Mapping[str, Json]
    step: Step
    act: Act = lambda _: None
    cured: Step | None = None
    refused: Mapping[tuple[str, str], tuple[int, str]] | None = None
    kept: frozenset[str] = frozenset()


def drained(consent: tuple[str, ...] = ()) -> Step:
    return lambda objects: drain.drain(client(objects), "gpu-1", 0, consent)


def without(path: str) -> Act:
    def act(objects: Objects) -> None:
        del objects.at[path]

    return act


def allowed(objects: Objects) -> None:
    """Let through what was refused."""
    objects.refused.clear()


def ended(objects: Objects) -> None:
    """Let what was deleted end."""
    for path in objects.kept:
        objects.at.pop(path, None)
    objects.kept.clear()


def put(path: str, item: Json) -> Act:
    return lambda objects: objects.at.__setitem__(path, item)


def members(component: str, *, ready: bool) -> dict[str, Json]:
    return {
        f"{SYSTEM}/{component}-{name}": static_pod(component, name, ready=ready or name != "cp-2")
        for name in ("cp-1", "cp-2", "cp-3")
    }


def mended(objects: Objects) -> None:
    objects.at |= members("etcd", ready=True)


async def _taints(objects: Objects) -> None:
    await taints.write_taints(
        client(objects), objects.at[NODE], lambda _: [], [TAINT], "gpu-cluster-dev"
    )


def _pool(**changes: Any) -> Any:
    document = stack_document(hosts=[])
    document["pools"][0] |= {"nodes": ["gpu-1"], **changes}
    return resolve(load(document), "dev").scheduling.pools[0]


async def _labelled(objects: Objects) -> None:
    metadata = {"labels": {"nvidia.com/gpu": "true"}}
    await node_scheduling._apply(client(objects), objects.at[NODE], metadata, _pool())


async def _pods_gone(objects: Objects) -> None:
    async def left() -> list[str]:
        return [path.rpartition("/")[2] for path in objects.at]

    await clear._pods_gone(left, "platform", "of platform hami")


def request(objects: tuple[Expected, ...] = (), revision: int = 0) -> PresenceRequest:
    return PresenceRequest(
        context="c",
        platform="device-plugin",
        release=RELEASE,
        version="0.20.1",
        objects=objects,
        revision=revision,
    )


CONFIG = Expected("v1", "ConfigMap", "gpu", "config")
DISCOVERY = {"resources": [{"kind": "ConfigMap", "name": "configmaps", "namespaced": True}]}


async def _policy_gone(objects: Objects) -> None:
    await runtime_class.settle(client(objects), "nvidia")


def owned_class() -> Json:
    owner = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": "cluster-policy",
        "uid": "p",
    }
    metadata = {"name": "nvidia", "resourceVersion": "1", "ownerReferences": [owner]}
    return {"metadata": metadata, "handler": "nvidia"}


def plugin_pod() -> Json:
    item = pod("web")
    item["metadata"]["labels"] = {"app": "plugin"}
    item["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "p", "controller": True}]
    return item


async def _definitions(objects: Objects) -> list[Fault]:
    chart = of_folder(FAKE_CHARTS / "gpu-operator")
    wanted = WantedChart(place="x", chart="gpu-operator", version="v26.7.0")
    return await definitions.outdated(client(objects), chart, wanted, None)


DEFINITION = "clusterpolicies.nvidia.com"
DEFINITIONS = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"


def definition(*, old: bool) -> Json:
    chart = of_folder(FAKE_CHARTS / "gpu-operator")
    item: Json = json.loads(json.dumps(chart.definitions[DEFINITION]))
    if old:
        spec = item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        del spec["properties"]["sandboxWorkloads"]["properties"]["mode"]
    return item


async def _dropped(objects: Objects) -> list[Fault]:
    spec = {"sandboxWorkloads": {"enabled": True, "mode": "kata"}}
    item = Expected(
        "nvidia.com/v1", "ClusterPolicy", "", "cluster-policy", json.dumps({"spec": spec})
    )
    return await definitions.dropped(client(objects), [item], "gpu")


KIND = {"resources": [{"kind": "ClusterPolicy", "name": "clusterpolicies", "namespaced": False}]}


def policy(*, mode: str | None) -> Json:
    workloads = {"enabled": True} | ({"mode": mode} if mode else {})
    return {
        "metadata": {"name": "cluster-policy", "uid": "p"},
        "spec": {"sandboxWorkloads": workloads},
    }


async def _admitted(objects: Objects) -> list[str]:
    item = {"kind": "DaemonSet", "metadata": {"name": "plugin"}, "spec": {}}
    found = await admitted._refusal(client(objects), "gpu", item)
    return [found] if found else []


ROWS = {
    "pod with a budget": Row(
        "check their PodDisruptionBudgets",
        {POD: pod("web")},
        drained(),
        allowed,
        refused={("POST", "/eviction"): (429, "Cannot evict pod")},
    ),
    "pod without a controller": Row(
        "write unmanaged for pods that nothing creates again",
        {POD: {**pod("web"), "metadata": {"name": "web", "namespace": "team-a", "uid": "w"}}},
        drained(),
        cured=drained(("unmanaged",)),
    ),
    "member that is down": Row(
        "mend that control plane first",
        members("etcd", ready=False),
        lambda objects: require_members(client(objects), "cp-1"),
        mended,
    ),
    "member that doesn't come back": Row(
        "check the kubelet's log there",
        members("etcd", ready=False),
        lambda objects: wait_members(client(objects), "cp-1", 0),
        mended,
    ),
    "taints of another program": Row(
        "find the other program",
        {NODE: node("gpu-1")},
        _taints,
        allowed,
        refused={("PATCH", "nodes/gpu-1"): (409, "the object has been modified")},
    ),
    "taint with another value": Row(
        "remove that taint",
        {NODE: node("gpu-1", {**TAINT, "value": "other"})},
        _taints,
        put(NODE, node("gpu-1")),
    ),
    "label of another program": Row(
        "or let its other owner give it up",
        {
            NODE: {
                **node("gpu-1"),
                "metadata": {
                    "name": "gpu-1",
                    "uid": "u",
                    "managedFields": [
                        {
                            "manager": "kubectl",
                            "operation": "Apply",
                            "fieldsV1": {"f:metadata": {"f:labels": {"f:nvidia.com/gpu": {}}}},
                        }
                    ],
                },
            }
        },
        _labelled,
        allowed,
        refused={("PATCH", "nodes/gpu-1"): (409, "conflict with kubectl")},
    ),
    "RuntimeClass of others": Row(
        "`kubectl delete runtimeclass nvidia`",
        {CLASS: {"metadata": {"name": "nvidia"}, "handler": "runc"}},
        lambda objects: runtime_class.own(RuntimeClassRequest(context="c", name="nvidia")),
        without(CLASS),
    ),
    "ClusterPolicy that stays": Row(
        "check the ClusterPolicy's finalizers",
        {CLASS: owned_class(), POLICY: policy(mode=None)},
        _policy_gone,
        without(POLICY),
    ),
    "object with a finalizer": Row(
        "check which finalizer keeps it",
        {POD: pod("web")},
        lambda objects: clear._wait_until_gone(client(objects), "namespaces/team-a/pods/web"),
        without(POD),
    ),
    "pods of another platform": Row(
        "check what keeps them", {POD: pod("web")}, _pods_gone, without(POD)
    ),
    "release without a record": Row(
        "run `pulumi up --refresh`",
        {},
        lambda objects: observe_objects(client(objects), request()),
        put(SECRET, record()),
    ),
    "missing object": Row(
        "add `--refresh` if the object is not of the release",
        {SECRET: record(), "/api/v1": DISCOVERY},
        lambda objects: presence._check_presence(client(objects), request((CONFIG,))),
        put("/api/v1/namespaces/gpu/configmaps/config", {"metadata": {"name": "config"}}),
    ),
    "interrupted release": Row(
        "it cleans up after a killed run",
        {SECRET: record("pending-install")},
        lambda objects: presence._check_presence(client(objects), request()),
        put(SECRET, record()),
    ),
    "record that is none": Row(
        "find out which program wrote this object, and delete the object",
        {SECRET: {**record(), "data": {"release": "eA=="}}},
        lambda objects: helm_record.newest(client(objects), RELEASE),
        without(SECRET),
    ),
    "manifest that is no YAML": Row(
        "find out who wrote the record",
        {SECRET: record(manifest="a: [")},
        lambda objects: presence._check_presence(client(objects), request()),
        put(SECRET, record(manifest="")),
    ),
    "definition of an earlier version": Row(
        "apply the definition in the chart's folder crds/",
        {DEFINITIONS: definition(old=True)},
        _definitions,
        put(DEFINITIONS, definition(old=False)),
    ),
    "field that was dropped": Row(
        "apply the chart's own definition",
        {"/apis/nvidia.com/v1": KIND, POLICY: policy(mode=None)},
        _dropped,
        put(POLICY, policy(mode="kata")),
    ),
    "object that admission refuses": Row(
        "",
        {},
        _admitted,
        allowed,
        refused={("POST", "daemonsets"): (422, "policy denied request: no host paths")},
    ),
    "GPU pods that stay": Row(
        "check their finalizers and the kubelet",
        {NODE: node("gpu-1"), POD: plugin_pod()},
        lambda objects: operands.off(client(objects), "gpu-1", OPERANDS, 0),
        ended,
        kept=frozenset({POD}),
    ),
    "rebooted node that isn't ready": Row(
        "the node stays cordoned until `up` uncordons it",
        {
            NODE: {
                **node("gpu-1"),
                "metadata": {"name": "gpu-1", "annotations": {CORDONED: "b"}},
            }
        },
        lambda objects: give_back(client(objects), objects.at[NODE], 0),
        put(
            NODE,
            {
                **node("gpu-1"),
                "metadata": {"name": "gpu-1", "annotations": {CORDONED: "b"}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
        ),
    ),
    "name of no object": Row(
        "find out which program wrote this object, and delete the object",
        {"/api/v1/nodes/x": node("../x")},
        lambda objects: _names(objects),
        without("/api/v1/nodes/x"),
    ),
}


async def _names(objects: Objects) -> list[str]:
    for item in objects.at.values():
        grammar.node(item["metadata"]["name"])
    return []


def check(step: Step, objects: Objects) -> list[Any]:
    """Run a step; return the faults that it returns or raises."""
    found = asyncio.run(_run(step, objects))
    return found if isinstance(found, list) else []


async def _run(step: Step, objects: Objects) -> Any:
    return await step(objects)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clear, "GONE", 0)
    monkeypatch.setattr(clear, "OTHERS_GONE", 0)
    monkeypatch.setattr(runtime_class, "POLICY_GONE", 0)
    monkeypatch.setattr(kubernetes, "PAUSE", 0.0)


@pytest.mark.promise("A cure of what stops a run removes the fault and brings no new one.")
@pytest.mark.parametrize("row", named(ROWS))
def test_the_cure_of_a_step_is_followed(
    row: Row, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    objects = Objects(
        json.loads(json.dumps(dict(row.objects))), dict(row.refused or {}), set(row.kept)
    )
    monkeypatch.setattr(runtime_class, "connect", objects.connect)

    def cured() -> list[Any]:
        row.act(objects)
        return check(row.cured or row.step, objects)

    follow_cure(row.words, lambda: check(row.step, objects), cured, record_property)


def respond(*answers: httpx.Response | type[httpx.TransportError]) -> Client:
    """Return a client of a server whose answers are these, the last one again and again."""
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        given = left[0] if len(left) == 1 else left.pop(0)
        if isinstance(given, httpx.Response):
            return httpx.Response(given.status_code, headers=given.headers, content=given.content)
        raise given("Server disconnected", request=request)

    return client(answer)


GOOD = httpx.Response(200, json={"items": [], "metadata": {}, "gitVersion": "v1.36.3"})
MANY = httpx.Response(200, json={"items": [{}] * 20_000, "metadata": {"continue": "x"}})
ANSWERS: Mapping[str, tuple[str, Any]] = {
    "refused request": (
        "correct what the message names",
        httpx.Response(422, json={"message": "no"}),
    ),
    "endless list": ("who created so much", MANY),
    "no JSON": ("find out which server responds", httpx.Response(200, content=b"<html>")),
    "no list": ("find out which server responds", httpx.Response(200, json=[])),
    "no response": ("check that the control plane runs", httpx.ReadError),
}


@pytest.mark.parametrize("row", named(ANSWERS))
def test_the_right_server_is_asked(row: tuple[str, Any], record_property: Record) -> None:
    words, answer = row

    def check(given: Any) -> list[Json]:
        return asyncio.run(respond(given).list("pods"))

    follow_cure(words, lambda: check(answer), lambda: check(GOOD), record_property)


@pytest.mark.advice("several")
def test_a_server_that_has_a_version_is_asked(record_property: Record) -> None:
    def check(answer: httpx.Response) -> list[str]:
        asyncio.run(respond(answer).server_version())
        return []

    follow_cure(
        "find out which server responds",
        lambda: check(httpx.Response(200, json={})),
        lambda: check(GOOD),
        record_property,
    )


@pytest.mark.advice("several")
def test_an_object_with_an_invalid_name_is_deleted(record_property: Record) -> None:
    def check(name: str) -> list[Json]:
        return asyncio.run(respond(GOOD).list(f"namespaces/{name}/pods"))

    follow_cure(
        "find out which client created the object",
        lambda: check(".."),
        lambda: check("team-a"),
        record_property,
    )


@pytest.mark.advice("several")
@pytest.mark.parametrize(
    ("words", "pool", "nodes"),
    [
        ("join it, or take it out of the pool", {}, [node("gpu-2")]),
        (
            "label the nodes, or change `count`",
            {"nodes": None, "count": 1, "selector": {"gpu": "a100"}},
            [node("gpu-1")],
        ),
    ],
)
def test_a_pool_gets_its_nodes(
    words: str, pool: Json, nodes: list[Json], record_property: Record
) -> None:
    document = stack_document(hosts=[])
    document["pools"][0] |= {"nodes": ["gpu-1"], **pool}
    document["pools"][0] = {k: v for k, v in document["pools"][0].items() if v is not None}
    members = resolve(load(document), "dev").scheduling.pools[0]
    joined = node("gpu-1")
    joined["metadata"]["labels"] = {"gpu": "a100"}

    def check(found: list[Json]) -> list[Fault]:
        inspect.pool_members(found, members)
        return []

    follow_cure(words, lambda: check(nodes), lambda: check([joined]), record_property)


@pytest.mark.advice("several")
def test_a_host_is_rebooted_once_the_failed_one_is_fixed(record_property: Record) -> None:
    async def turn(turns: Turns) -> None:
        async with turns.turn("gpu-2", Role.GPU_WORKER):
            pass

    def check(failed: str) -> list[Fault]:
        turns = Turns(1)
        turns.failed = failed
        asyncio.run(turn(turns))
        return []

    follow_cure(
        "fix gpu-1, then run again", lambda: check("gpu-1"), lambda: check(""), record_property
    )


@pytest.mark.advice("several")
def test_what_was_not_started_is_started_by_the_next_run(record_property: Record) -> None:
    follow_cure(
        "fix the failure above, then run `up`",
        lambda: not_begun(["gpu-2"]),
        lambda: not_begun([]),
        record_property,
    )


def rolled(role: Role = Role.GPU_WORKER, refused: str = "") -> RolledHost:
    """Return a host of a rollout, which is the node `gpu-1`."""
    document = stack_document(hosts=[{"name": "gpu-1", "address": "192.0.2.1", "hostKey": KEYS[0]}])
    (host,) = resolve(load(document), "dev").hosts
    return RolledHost(
        target=replace(host.target, role=role),
        prepare=Phase(name="prepare", script="", lines={}),
        runtime=None,
        has_gpus=False,
        upgrade=host.upgrade,
        refused=refused,
    )


@pytest.mark.advice("several")
def test_a_change_that_waves_cannot_make_is_undone(record_property: Record) -> None:
    def check(*hosts: RolledHost) -> list[Fault]:
        refuse(hosts, {})
        return []

    follow_cure(
        "undo this change in the stack file",
        lambda: check(rolled(refused="another pod network")),
        lambda: check(rolled()),
        record_property,
    )


def rollout(objects: Objects) -> RolloutRun:
    """Return a rollout that waits for nothing."""
    desired = resolve(load(stack_document()), "dev")
    return RolloutRun(
        client(objects),
        RolloutRequest(
            rollout=replace(desired.rollout, boot_timeout_seconds=0),
            hosts=(),
            operands=desired.operands,
            pools={},
            private_key="",
        ),
    )


def layouts(objects: Objects) -> MigLayoutsRun:
    """Return a change of MIG layouts that waits for nothing."""
    desired = resolve(load(stack_document()), "dev")
    wanted = replace(desired.layouts, timeout_seconds=0)
    target = MigTarget(layout=LAYOUT, declared=True)
    return MigLayoutsRun(
        client(objects),
        MigLayoutsRequest(rollout=desired.rollout, layouts=wanted, pools=()),
        {"gpu-1": target},
    )


def partitioned(state: str) -> Json:
    item = node("gpu-1")
    item["metadata"]["labels"] = {MIG_LABEL: LAYOUT, MIG_STATE: state}
    return item


ROLLED = {
    "node that somebody works on": Row(
        "run `up` again when the work on it is done",
        {NODE: node("gpu-1", unschedulable=True)},
        lambda objects: rollout(objects).empty(rolled()),
        put(NODE, node("gpu-1")),
    ),
    "changed node that isn't ready": Row(
        "the node stays cordoned, and `up` continues with it",
        {NODE: node("gpu-1")},
        lambda objects: rollout(objects).ready("gpu-1"),
        put(NODE, {**node("gpu-1"), "status": READY}),
    ),
    "API server that isn't ready": Row(
        "it continues where it stopped",
        {},
        lambda objects: rollout(objects).api_back(rolled(Role.CONTROL_PLANE)),
        put("/readyz", {}),
    ),
    "layout of a node that somebody works on": Row(
        "run `up` again when the work on it is done",
        {NODE: node("gpu-1", unschedulable=True)},
        lambda objects: layouts(objects).cordon("gpu-1"),
        put(NODE, node("gpu-1")),
    ),
    "layout that MIG manager can't apply": Row(
        "check the log of MIG manager's pod there",
        {NODE: partitioned("failed")},
        lambda objects: layouts(objects).divide("gpu-1", LAYOUT),
        put(NODE, partitioned("success")),
    ),
    "MIG manager that doesn't end": Row(
        "check the log of MIG manager's pod there",
        {NODE: partitioned("pending")},
        lambda objects: layouts(objects).divide("gpu-1", LAYOUT),
        put(NODE, partitioned("success")),
    ),
    "release of others": Row(
        "run `helm uninstall -n gpu nvidia-device-plugin`",
        {SECRET: record(config={"a": 1})},
        lambda _: clear.release(
            clear.Others(context="c", selectors=()),
            {"name": RELEASE.name, "namespace": "gpu", "values": {"a": 2}},
        ),
        without(SECRET),
    ),
    "revision of others": Row(
        "remove the foreign revision",
        {SECRET: record()},
        lambda objects: presence._is_vouched(client(objects), request()),
        without(SECRET),
    ),
}


@pytest.mark.parametrize("row", named(ROLLED))
def test_the_cure_of_a_rollout_is_followed(
    row: Row, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    objects = Objects(json.loads(json.dumps(dict(row.objects))))
    monkeypatch.setattr(clear, "connect", objects.connect)

    def cured() -> list[Any]:
        row.act(objects)
        return check(row.step, objects)

    follow_cure(row.words, lambda: check(row.step, objects), cured, record_property)


@pytest.mark.advice("several")
@pytest.mark.parametrize(
    "words", ["read the output of the test's program", "or lower the test's `minimum`"]
)
def test_a_test_of_nodes_passes(words: str, record_property: Record) -> None:
    failed = Outcome(test="nccl", node="gpu-1", pool="a100", figure=90, minimum=100, problem="90")
    passed = replace(failed, minimum=80, problem="")

    def check(outcome: Outcome) -> list[Fault]:
        return list(tests._failed_tests([outcome], 1)) if outcome.problem else []

    follow_cure(words, lambda: check(failed), lambda: check(passed), record_property)


@pytest.mark.advice("several")
def test_leftovers_are_removed_by_an_api_server_that_responds(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setattr(clearing, "LIMIT", 0.01)

    async def removed(seconds: float) -> list[str]:
        await asyncio.sleep(seconds)
        return []

    with pytest.raises(pulumi.RunError, match="check that the API server responds") as refused:
        asyncio.run(clearing._run_clearing("release", removed(30)))
    monkeypatch.setattr(clearing, "LIMIT", 30)
    asyncio.run(clearing._run_clearing("release", removed(0)))
    anchor = row_of(str(refused.value), "release/clearing.py")
    record_property("advice", ("cure", anchor, True))


@pytest.mark.advice("several")
def test_a_proxy_that_changes_the_encoding_is_passed_by(record_property: Record) -> None:
    packed = gzip.compress(gzip.compress(b"{}"))
    twice = httpx.Response(200, headers={"content-encoding": "gzip, gzip"}, content=b"")
    twice = httpx.Response(200, headers=twice.headers, stream=httpx.ByteStream(packed))

    with pytest.raises(ClusterError) as refused:
        asyncio.run(client(lambda _: twice).list("pods"))
    assert asyncio.run(respond(GOOD).list("pods")) == []
    anchor = row_of(str(refused.value), "kubernetes/api.py")
    record_property("advice", ("cure", anchor, True))


@pytest.mark.advice("several")
def test_a_daemon_set_gets_its_pods(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    def item(ready: int) -> Json:
        status = {"desiredNumberScheduled": 1, "numberReady": ready, "updatedNumberScheduled": 1}
        return {
            "metadata": {"name": "driver", "namespace": "gpu", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": "driver"}}},
            "status": {**status, "observedGeneration": 1},
        }

    def check(ready: int) -> list[Fault]:
        objects = Objects({"/apis/apps/v1/namespaces/gpu/daemonsets/driver": item(ready)})
        monkeypatch.setattr(driver_daemonset, "connect", objects.connect)
        wanted = driver_daemonset.InstallersRequest(
            context="c", namespace="gpu", daemon_sets=("driver",), timeout_seconds=0
        )
        asyncio.run(driver_daemonset.wait(wanted))
        return []

    follow_cure(
        "see `kubectl describe` of this DaemonSet",
        lambda: check(0),
        lambda: check(1),
        record_property,
    )
