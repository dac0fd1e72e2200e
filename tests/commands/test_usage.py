"""Who holds which GPUs: counted from pods, claims and nodes, each device once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gpu_cluster.commands import usage as module
from gpu_cluster.commands.usage import Listed, NodeUsage, PodDevices, Usage, usage
from gpu_cluster.desired.pool import Members
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_rules.kube.gpu_resources import GPU
from tests.commands.usages import CREATED, claim, node, pod, slices
from tests.fixtures.api import client

POOL = Members(context="c", pool="a100", nodes=("gpu-1", "gpu-2"))


def seen(*, names: set[str] | None = None, **listed: Any) -> Usage:
    given = {kind: tuple(items) for kind, items in listed.items()}
    given["pods"] = tuple(map(PodDevices.of, given.get("pods", ())))
    return usage("dev", (POOL,), names or set(), Listed(**given))


def by_name(found: Usage) -> dict[str, NodeUsage]:
    return {each.node: each for each in found.nodes}


def test_each_gpu_is_held_by_a_named_pod_or_free() -> None:
    found = seen(
        nodes=[node("gpu-10"), node("gpu-2"), node("web", {})],
        pods=[
            pod("team-b/train", "gpu-2", {GPU: "5"}),
            pod("notebook", "gpu-2"),
            pod("w", "web", {}),
        ],
    )
    assert [each.node for each in found.nodes] == ["gpu-2", "gpu-10"]
    used, idle = found.nodes
    held = [(each.namespace, each.name, dict(each.amounts)) for each in used.holders]
    assert held == [("team-a", "notebook", {GPU: 2}), ("team-b", "train", {GPU: 5})]
    assert (used.pool, used.free, used.holders[0].created) == ("a100", {GPU: 1}, CREATED)
    assert (idle.pool, idle.free, idle.holders) == ("", {GPU: 8}, ())
    totals = [(each.namespace, each.holders, dict(each.amounts)) for each in found.namespaces]
    assert totals == [("team-b", 1, {GPU: 5}), ("team-a", 1, {GPU: 2})]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_holds_nothing(phase: str) -> None:
    (only,) = seen(nodes=[node("gpu-1")], pods=[pod("job", "gpu-1", phase=phase)]).nodes
    assert (only.holders, only.free) == ((), {GPU: 8})


def test_a_pod_that_is_being_deleted_still_holds_its_gpus() -> None:
    going = pod("job", "gpu-1")
    going["metadata"]["deletionTimestamp"] = CREATED
    (only,) = seen(nodes=[node("gpu-1")], pods=[going]).nodes
    assert [each.state for each in only.holders] == ["being deleted"]
    assert only.free == {GPU: 6}


def test_pods_without_a_node_wait_and_hold_nothing() -> None:
    found = seen(nodes=[node("gpu-1")], pods=[pod("late", ""), pod("web", "", {})])
    assert [each.name for each in found.waiting] == ["late"]
    assert found.namespaces == ()


def test_shares_partitions_and_renamed_resources_are_counted_by_resource() -> None:
    amounts = {"nvidia.com/mig-1g.5gb": "7", "nvidia.com/gpu.shared": "16", "corp.io/a100": "8"}
    limits = {"nvidia.com/mig-1g.5gb": "2", "corp.io/a100": "3", "memory": "4Gi", "cpu": "2"}
    (only,) = seen(
        nodes=[node("gpu-1", {**amounts, "cpu": "64"})],
        pods=[pod("a", "gpu-1", limits)],
        names={"corp.io/a100"},
    ).nodes
    assert only.holders[0].amounts == {"nvidia.com/mig-1g.5gb": 2, "corp.io/a100": 3}
    assert only.free == {
        "nvidia.com/mig-1g.5gb": 5, "nvidia.com/gpu.shared": 16, "corp.io/a100": 5,
    }  # fmt: skip


def test_a_claim_of_one_pod_is_told_with_the_pod() -> None:
    (only,) = seen(
        nodes=[node("gpu-1", {})],
        slices=[slices("gpu-1", 4)],
        pods=[pod("team-a/train", "gpu-1", {})],
        claims=[claim("train-x7", "gpu-1", ["gpu-0", "gpu-1"], ["team-a/train"])],
    ).nodes
    (holder,) = only.holders
    assert (holder.kind, holder.name, holder.claims) == ("Pod", "train", ("train-x7",))
    assert (holder.amounts, only.gpus, only.free) == (
        {DRA_DRIVER: 2}, {DRA_DRIVER: 4}, {DRA_DRIVER: 2},
    )  # fmt: skip


@pytest.mark.parametrize("users", [[], ["team-a/one", "team-a/two"]])
def test_the_devices_of_a_claim_count_once_however_many_pods_use_it(users: list[str]) -> None:
    (only,) = seen(
        nodes=[node("gpu-1", {})],
        slices=[slices("gpu-1", 4)],
        pods=[pod(user, "gpu-1", {}) for user in users],
        claims=[claim("shared", "gpu-1", ["gpu-0"], users)],
    ).nodes
    (holder,) = only.holders
    assert (holder.kind, holder.name, list(holder.pods)) == ("ResourceClaim", "shared", users)
    assert only.free == {DRA_DRIVER: 3}


def test_a_claim_for_monitoring_holds_no_device() -> None:
    found = seen(
        nodes=[node("gpu-1", {})],
        slices=[slices("gpu-1", 4)],
        claims=[claim("watch", "gpu-1", ["gpu-0"], [], adminAccess=True)],
    )
    assert by_name(found)["gpu-1"].free == {DRA_DRIVER: 4}


def test_an_extended_resource_that_a_claim_fulfils_is_counted_by_its_claim_only() -> None:
    mapped = {"requestMappings": [{"containerName": "main", "resourceName": GPU}]}
    (only,) = seen(
        nodes=[node("gpu-1", {})],
        slices=[slices("gpu-1", 4)],
        pods=[pod("team-a/x", "gpu-1", {GPU: "1"}, extendedResourceClaimStatus=mapped)],
        claims=[claim("x-extended", "gpu-1", ["gpu-3"], ["team-a/x"])],
    ).nodes
    assert only.holders[0].amounts == {DRA_DRIVER: 1}


def test_a_node_that_takes_no_pods_says_why() -> None:
    silent = node("gpu-2")
    silent["status"]["conditions"] = []
    found = by_name(seen(nodes=[node("gpu-1", unschedulable=True), silent, node("gpu-3")]))
    assert [found[f"gpu-{n}"].closed for n in (1, 2, 3)] == ["cordoned", "not ready", ""]


def test_a_selector_finds_the_pool_of_a_node() -> None:
    pool = Members(context="c", pool="dgx", selector={"kind": "dgx"}, count=1)
    (only,) = usage("dev", (pool,), set(), Listed(nodes=(node("x"),))).nodes
    assert only.pool == "dgx"


def test_pods_on_a_node_that_is_gone_are_told() -> None:
    (only,) = seen(pods=[pod("left", "gpu-9")]).nodes
    assert (only.node, only.gpus, only.closed) == ("gpu-9", {}, "not ready")
    assert [each.name for each in only.holders] == ["left"]


def test_equal_clusters_give_equal_documents_in_any_order() -> None:
    nodes = [node(f"gpu-{n}") for n in range(12)]
    pods = [pod(f"team-{n % 3}/p-{n}", f"gpu-{n}") for n in range(12)]
    one = seen(nodes=nodes, pods=pods)
    assert one.model_dump_json() == seen(nodes=nodes[::-1], pods=pods[::-1]).model_dump_json()
    assert Usage.model_validate_json(one.model_dump_json(by_alias=True)) == one


def test_names_with_numbers_are_sorted_by_number() -> None:
    assert sorted(["gpu-10", "gpu-2", "cpu-1", "gpu"], key=natural_order) == [
        "cpu-1", "gpu", "gpu-2", "gpu-10",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "told"), [(404, ()), (403, ("resourceclaims: no", "resourceslices: no"))]
)
def test_a_cluster_without_claims_is_read_and_a_refusal_is_told(
    code: int, told: tuple[str, ...]
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "resource.k8s.io" in request.url.path:
            return httpx.Response(code, json={"message": "no", "code": code})
        items = [node("gpu-1")] if request.url.path.endswith("nodes") else []
        return httpx.Response(200, json={"metadata": {}, "items": items})

    found = asyncio.run(module.listed(client(answer)))
    assert found.uninspected == told
    assert len(found.nodes) == 1
