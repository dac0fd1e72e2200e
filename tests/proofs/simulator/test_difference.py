"""An inspection distinguishes edits of the stack file from changes in the cluster (drift)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.findings import Finding, Kind
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import _observe
from gpu_cluster.kubernetes.api import APPLY, Client, connect
from gpu_cluster.kubernetes.resources import MIG_LABEL
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes import node_scheduling, record
from gpu_cluster.nodes.applied import PREFIX
from gpu_cluster.nodes.difference import PoolGpus
from gpu_cluster.platforms.requests import Expected
from gpu_cluster.release.helm_record import TYPE, encode_release
from gpu_cluster.release.presence import check
from gpu_cluster.rollout import mig_targets
from gpu_cluster_lab.simulator import set_fault
from tests.findings import found
from tests.proofs.simulator.conftest import lent
from tests.proofs.simulator.running import CLUSTER, Json, Running

pytestmark = pytest.mark.slow

NODES = "/api/v1/nodes"
SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
RACK, TEAM = "example.com/rack", "example.com/team"
POOL: Json = {
    "name": "a100",
    "nodes": ["gpu-[1-2]"],
    "gpusPerNode": 8,
    "startupTaint": False,
    "labels": {RACK: "r1"},
}
TAINT = "nvidia.com/gpu:NoSchedule"
OWN_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def declared(*pools: Json, platform: str = "device-plugin", **sections: Any) -> Desired:
    document = {
        "version": "v1",
        "kubernetes": {"context": f"gpu-cluster-{CLUSTER}"},
        "platform": platform,
        "pools": list(pools) or [POOL],
        **sections,
    }
    return resolve(load(document), "test")


def edited(**changes: Any) -> Desired:
    return declared({**POOL, **changes})


def inspected(desired: Desired) -> Difference:
    """Return the difference that an inspection finds on the API server."""
    seen = asyncio.run(_observe(desired.question))
    assert seen.unreachable == ""
    return judged(desired, Seen(cluster=seen)).difference


def scheduled(desired: Desired, action: Callable[..., Any] = node_scheduling.apply) -> None:
    for pool in desired.scheduling.pools:
        asyncio.run(action(pool))


@pytest.fixture(scope="module")
def served(shared: Running, places: dict[str, str]) -> Iterator[Running]:
    """Yield the cluster with a device plugin that advertises all GPUs."""
    with lent(places):
        shared.deploy_plugin()
        for name in ("gpu-1", "gpu-2", "gpu-3"):
            shared.wait_gpus(name, "8", "8")
        yield shared
        shared.clear()


@pytest.fixture
def applied(served: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Yield three nodes: two in the applied and validated pool `POOL`, and one without a pool."""
    cluster = served
    monkeypatch.setenv("KUBECONFIG", str(cluster.plane.kubeconfig))
    before = {name: wrote(cluster, name) for name in ("gpu-1", "gpu-2", "gpu-3")}
    base = declared()
    scheduled(base)
    (pool,) = base.validation.pools
    for name in ("gpu-1", "gpu-2"):
        node = cluster.node(name)
        devices: dict[str, list[str]] = {f"GPU-{name}-{each}": [] for each in range(8)}
        facts = record.facts(node, pool, [])
        kept = record.ValidationRecord(facts=facts, devices=devices, manager=pool.manager)
        note(cluster, name, {record.RECORD: record.encode(kept)})
    try:
        yield cluster
    finally:
        for name in ("gpu-1", "gpu-2"):
            note(cluster, name, {record.RECORD: None, mig_targets.APPLIED: None})
            labels = {TEAM: None, RACK: None, MIG_LABEL: None}
            cluster.request("PATCH", f"{NODES}/{name}", {"metadata": {"labels": labels}})
            cluster.request("PATCH", f"{NODES}/{name}", {"spec": {"taints": None}})
        scheduled(base, node_scheduling.release)
        for name in ("gpu-1", "gpu-2"):
            cluster.wait_gpus(name, "8", "8")
    assert {name: wrote(cluster, name) for name in before} == before


def wrote(cluster: Running, name: str) -> Any:
    """Return a node's labels, this project's annotations, and taints."""
    node = cluster.node(name)
    meta = node["metadata"]
    notes = {key: value for key, value in meta["annotations"].items() if "gpu-cluster/" in key}
    return meta["labels"], notes, node["spec"].get("taints")


def note(cluster: Running, name: str, annotations: Json) -> None:
    cluster.request("PATCH", f"{NODES}/{name}", {"metadata": {"annotations": annotations}})


def changed(words: str, was: str = "", now: str = "", *, first: bool = False) -> Finding:
    return found(f"change: node {words}", was, now, first=first)


def drifted(words: str, was: str = "", now: str = "") -> Finding:
    return found(f"drift: node {words}", was, now)


def both(words: str, was: str = "", now: str = "") -> list[Finding]:
    return [changed(f"{name}: {words}", was, now) for name in ("gpu-1", "gpu-2")]


EDITS: dict[str, tuple[Desired, list[Finding], PoolGpus | None]] = {
    "a label more": (
        edited(labels={RACK: "r1", TEAM: "ml"}),
        both(f"label {TEAM}", "", "ml"),
        None,
    ),
    "another value of a label": (
        edited(labels={RACK: "r2"}),
        both(f"label {RACK}", "r1", "r2"),
        None,
    ),
    "a label less": (edited(labels={}), both(f"label {RACK}", "r1", ""), None),
    "a taint more": (
        edited(taints=["nvidia.com/gpu=present:NoSchedule", "example.com/own=x:NoExecute"]),
        both("taint example.com/own:NoExecute", "", "x"),
        None,
    ),
    "another value of a taint": (
        edited(taints=["nvidia.com/gpu=mine:NoSchedule"]),
        both(f"taint {TAINT}", "present", "mine"),
        None,
    ),
    "a taint less": (edited(taints=[]), both(f"taint {TAINT}", "present", ""), None),
    "fewer GPUs of each node": (
        edited(gpusPerNode=4),
        [*both("GPUs", "8", "4"), *both("gpusPerNode", "8", "4")],
        PoolGpus(pool="a100", before=16, after=8),
    ),
    "a GPU that is left out": (
        edited(unhealthyDevices={"gpu-2": {"index": [3]}}),
        [
            changed("gpu-2: GPUs", "8", "7"),
            changed("gpu-2: gpusPerNode", "8", "7"),
        ],
        PoolGpus(pool="a100", before=16, after=15),
    ),
    "a node less": (
        edited(nodes=["gpu-1"]),
        [changed("gpu-2: pool", "a100, 8 GPUs", "")],
        PoolGpus(pool="a100", before=16, after=8),
    ),
    "a node more": (
        edited(nodes=["gpu-[1-3]"]),
        [
            changed("gpu-3: pool", "", "a100", first=True),
            found("due: node gpu-3: not validated", first=True),
        ],
        PoolGpus(pool="a100", before=16, after=24),
    ),
    "a label of one node": (
        declared(scheduling={"nodes": {"gpu-2": {"labels": {TEAM: "spare"}}}}),
        [changed(f"gpu-2: label {TEAM}", "", "spare")],
        None,
    ),
    "a pool that is gone": (
        declared({**POOL, "nodes": ["gpu-3"], "name": "h100"}),
        [
            changed("gpu-3: pool", "", "h100", first=True),
            changed("gpu-1: pool", "a100, 8 GPUs", ""),
            changed("gpu-2: pool", "a100, 8 GPUs", ""),
            found("due: node gpu-3: not validated", first=True),
        ],
        PoolGpus(pool="a100", before=16, after=0),
    ),
    "another driver": (
        declared(driver={"version": "580.95.05"}),
        both("driver.version", "any", "580.95.05"),
        None,
    ),
    "another image of the validation": (
        declared(validation={"image": "registry.example.com/sample:v2"}),
        both("validation.image", declared().validation.pools[0].settings["validation.image"],
             "registry.example.com/sample:v2"),
        None,
    ),
}  # fmt: skip


@pytest.mark.promise(
    "What a person edits of pools is called a change, never drift, with the GPUs of each pool "
    "before and after."
)
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_a_pool_is_a_change_and_no_drift(applied: Running, name: str) -> None:
    desired, expected, gpus = EDITS[name]
    calm = inspected(declared())
    assert (calm.findings, calm.gpus) == ((), (PoolGpus(pool="a100", before=16, after=16),))
    differing = inspected(desired)
    assert differing.of(Kind.DRIFT) == ()
    shown = [replace(each, was=each.was[:60], now=each.now[:60]) for each in differing.findings]
    assert shown == [replace(each, was=each.was[:60], now=each.now[:60]) for each in expected]
    if gpus:
        assert gpus in differing.gpus


def label(key: str, value: str | None, *names: str) -> Callable[[Running], Any]:
    body = {"metadata": {"labels": {key: value}}}
    return lambda cluster: [
        cluster.request("PATCH", f"{NODES}/{name}", body) for name in names or ("gpu-1",)
    ]


def taints(*wanted: Json) -> Callable[[Running], Any]:
    body = {"spec": {"taints": list(wanted) or None}}
    return lambda cluster: cluster.request("PATCH", f"{NODES}/gpu-1", body)


def take_over(_: Running) -> None:
    """Apply another value of the pool's label as another field manager, with `force`."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {RACK: "theirs"}}}

    async def apply() -> None:
        async with connect(f"gpu-cluster-{CLUSTER}") as client:
            await client.request(
                "PATCH", "nodes/gpu-1", body=body, content_type=APPLY,
                params={"fieldManager": "somebody", "force": "true"},
            )  # fmt: skip

    asyncio.run(apply())


DRIFTS: dict[str, tuple[Callable[[Running], Any], list[Finding]]] = {
    "a label that was removed": (label(RACK, None), [drifted(f"gpu-1: label {RACK}", "r1", "")]),
    "a label that was changed": (label(RACK, "r9"), [drifted(f"gpu-1: label {RACK}", "r1", "r9")]),
    "a label that was emptied": (label(RACK, ""), [drifted(f"gpu-1: label {RACK}", "r1", '""')]),
    "a label that somebody took over": (
        take_over,
        [drifted(f"gpu-1: label {RACK}", "r1", "theirs")],
    ),
    "a label that was removed everywhere": (
        label(RACK, None, "gpu-1", "gpu-2"),
        [drifted(f"{name}: label {RACK}", "r1", "") for name in ("gpu-1", "gpu-2")],
    ),
    "a taint that was removed": (taints(), [drifted(f"gpu-1: taint {TAINT}", "present", "")]),
    "a taint that was changed": (
        taints({**OWN_TAINT, "value": "theirs"}),
        [drifted(f"gpu-1: taint {TAINT}", "present", "theirs")],
    ),
    "another effect of a taint": (
        taints({**OWN_TAINT, "effect": "PreferNoSchedule"}),
        [drifted(f"gpu-1: taint {TAINT}", "present", "")],
    ),
    "a label and a taint that were removed together": (
        lambda cluster: (label(RACK, None)(cluster), taints()(cluster)),
        [
            drifted(f"gpu-1: label {RACK}", "r1", ""),
            drifted(f"gpu-1: taint {TAINT}", "present", ""),
        ],
    ),
    "a taint that was replaced by somebody's own": (
        taints({"key": "example.com/theirs", "value": "x", "effect": "NoExecute"}),
        [drifted(f"gpu-1: taint {TAINT}", "present", "")],
    ),
}


@pytest.mark.promise(
    "What somebody else changes of a node is called drift, with what was applied and what is there."
)
@pytest.mark.parametrize("name", DRIFTS)
def test_what_somebody_else_changes_on_a_node_is_drift(applied: Running, name: str) -> None:
    act, expected = DRIFTS[name]
    act(applied)
    differing = inspected(declared())
    assert list(differing.of(Kind.DRIFT)) == expected
    assert differing.of(Kind.CHANGE) == ()


def test_an_edit_and_a_drift_of_one_node_are_told_apart(applied: Running) -> None:
    label(RACK, "r9")(applied)
    findings = inspected(edited(labels={RACK: "r1", TEAM: "ml"})).findings
    assert list(findings) == [
        changed(f"gpu-1: label {TEAM}", "", "ml"),
        drifted(f"gpu-1: label {RACK}", "r1", "r9"),
        changed(f"gpu-2: label {TEAM}", "", "ml"),
    ]


def test_what_is_as_desired_already_is_nobody_elses_doing(applied: Running) -> None:
    """Create the state of a node on which a run was killed after it had removed a taint."""
    taints()(applied)
    assert inspected(edited(taints=[])).of(Kind.DRIFT) == ()


@pytest.mark.parametrize("answered", range(8))
def test_a_run_that_was_killed_leaves_no_drift(
    applied: Running, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    """A run that applies an edit is killed after each of its requests in turn.

    Then the edit is kept or reverted in the stack file.
    """
    request, made = Client.request, 0

    async def cut(self: Client, *args: Any, **more: Any) -> Any:
        nonlocal made
        made += 1
        if made > answered:
            raise InterruptedError
        return await request(self, *args, **more)

    wanted = edited(taints=["example.com/own=x:NoExecute"], labels={TEAM: "ml"})
    with monkeypatch.context() as patch:
        patch.setattr(Client, "request", cut)
        with suppress(InterruptedError, ExceptionGroup):
            scheduled(wanted)
    for desired in (wanted, declared()):
        assert inspected(desired).of(Kind.DRIFT) == ()
    scheduled(wanted)
    assert inspected(wanted).scheduling.findings == ()
    scheduled(declared())
    assert inspected(declared()).scheduling.findings == ()


def test_what_a_node_keeps_goes_when_it_leaves_its_pool(applied: Running) -> None:
    kept = json.loads(applied.node("gpu-2")["metadata"]["annotations"][f"{PREFIX}a100"])
    assert (kept["stack"], kept["pool"], kept["gpus"]) == ("test", "a100", 8)
    one = edited(nodes=["gpu-1"])
    scheduled(one)
    assert f"{PREFIX}a100" not in applied.node("gpu-2")["metadata"]["annotations"]
    assert inspected(one).gpus == (PoolGpus(pool="a100", before=8, after=8),)
    scheduled(declared())


def test_a_gpu_that_is_no_longer_offered_makes_a_validation_due(applied: Running) -> None:
    set_fault(CLUSTER, "gpu-1", "unhealthy-gpus=1")
    applied.wait_gpus("gpu-1", "8", "7")
    try:
        (found_due,) = inspected(declared()).findings
    finally:
        set_fault(CLUSTER, "gpu-1")
        applied.wait_gpus("gpu-1", "8", "8")
    assert found_due.kind is Kind.DUE
    assert found_due.text.startswith("validated with other GPUs: 7 of 8 GPUs allocatable")


def test_a_proof_that_no_longer_holds_is_due(
    applied: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = applied.node("gpu-1")
    kept = record.decode(node)
    other = record.decode(applied.node("gpu-2"))
    assert kept is not None
    assert other is not None
    booted = replace(kept, facts={**kept.facts, "kernel": "6.1", "driver": "570.1"})
    note(applied, "gpu-1", {record.RECORD: record.encode(booted)})
    label("nvidia.com/cuda.driver-version.full", "580.2")(applied)
    note(applied, "gpu-2", {record.RECORD: None})
    kernel = node["status"]["nodeInfo"]["kernelVersion"]
    try:
        assert inspected(declared()).findings == (
            found("due: node gpu-1: validated with another driver:", "570.1", "580.2"),
            found("due: node gpu-1: validated with another kernel:", "6.1", kernel),
            found("due: node gpu-2: not validated", first=True),
        )
    finally:
        label("nvidia.com/cuda.driver-version.full", None)(applied)
    note(applied, "gpu-1", {record.RECORD: record.encode(kept)})
    note(applied, "gpu-2", {record.RECORD: record.encode(other)})
    monkeypatch.setenv("GPU_CLUSTER_VALIDATE", "gpu-2")
    asked = found("due: node gpu-2: validation asked for")
    assert inspected(declared()).findings == (asked,)


MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: of-release, namespace: default}
"""


@pytest.fixture
def released(applied: Running) -> Iterator[tuple[Running, Desired]]:
    """Create the objects of a complete Helm release, as an earlier run has seen it."""
    desired = declared()
    presence = replace(
        desired.presence, release=replace(desired.presence.release, namespace="default"), objects=()
    )
    release = {
        "name": presence.release.name,
        "namespace": "default",
        "version": 1,
        "manifest": MANIFEST,
        "info": {"status": "deployed"},
    }
    name = f"sh.helm.release.v1.{presence.release.name}.v1"
    labels = {"owner": "helm", "name": presence.release.name, "status": "deployed", "version": "1"}
    data = {"release": encode_release(release)}
    secret = {"metadata": {"name": name, "labels": labels}, "type": TYPE, "data": data}
    applied.request("POST", SECRETS, secret)
    for each in ("of-release", "beside"):
        applied.request("POST", MAPS, {"metadata": {"name": each}})
    try:
        yield applied, replace(desired, presence=presence)
    finally:
        applied.request("DELETE", f"{SECRETS}/{name}")
        for item in applied.items(MAPS):
            if item["metadata"]["name"] in ("of-release", "beside"):
                applied.request("DELETE", f"{MAPS}/{item['metadata']['name']}")


def with_object(desired: Desired, name: str) -> Desired:
    item = Expected("v1", "ConfigMap", "default", name)
    presence = desired.presence
    return replace(desired, presence=replace(presence, objects=(*presence.objects, item)))


def test_objects_of_the_platform_that_were_there_are_drift_and_new_ones_a_change(
    released: tuple[Running, Desired],
) -> None:
    cluster, desired = released
    desired = with_object(desired, "beside")
    asyncio.run(check(desired.presence))
    assert inspected(desired).findings == ()
    edit = with_object(desired, "declared-since")
    new = found(
        "change: object ConfigMap default/declared-since: platform's object",
        "",
        "there",
        first=True,
    )
    assert inspected(edit).findings == (new,)
    for name in ("beside", "of-release"):
        cluster.request("DELETE", f"{MAPS}/{name}")
    lost = tuple(
        found(f"drift: object ConfigMap default/{name}: platform's object", "there", "missing")
        for name in ("of-release", "beside")
    )
    assert inspected(desired).findings == lost
    assert inspected(edit).findings == (*lost, new)


def test_another_version_of_the_chart_is_a_change(released: tuple[Running, Desired]) -> None:
    _, desired = released
    asyncio.run(check(desired.presence))
    upgraded = replace(desired, presence=replace(desired.presence, version="9.9.9"))
    release, version = desired.presence.release, desired.presence.version
    assert inspected(upgraded).findings == (
        found(f"change: object {release}: chart", version, "9.9.9"),
    )
    assert inspected(desired).findings == ()


def test_a_layout_by_hand_is_drift_and_another_declared_one_a_change(applied: Running) -> None:
    desired = declared({**POOL, "mig": {"1g.5gb": 7}}, platform="gpu-operator")
    layout = desired.layouts.pools[0].layout
    applied.request(
        "PATCH",
        f"{NODES}/gpu-1",
        {
            "metadata": {
                "labels": {MIG_LABEL: "by-hand"},
                "annotations": {mig_targets.APPLIED: layout},
            }
        },
    )
    drift, edit = (
        drifted("gpu-1: MIG layout", layout, "by-hand"),
        changed("gpu-2: MIG layout", "", layout),
    )
    seen = asyncio.run(_observe(desired.question))
    assert tuple(seen.layouts.values()) == (drift, edit)
    other = declared({**POOL, "mig": {"2g.10gb": 3}}, platform="gpu-operator")
    again = asyncio.run(_observe(other.question)).layouts["gpu-1"]
    assert again == changed("gpu-1: MIG layout", layout, other.layouts.pools[0].layout)
