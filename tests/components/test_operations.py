"""Unit tests of decisions about taints, nodes, releases and requests; no cluster is needed."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.pool import Members
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.nodes.inspect import count_devices, gpus, pool_members
from gpu_cluster.nodes.taints import taints_wanted
from gpu_cluster.release import runtime_class
from gpu_cluster.release.helm_record import decode_release, same_values
from gpu_rules.faults import Fault

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OTHER = {"key": "example.com/maintenance", "effect": "NoExecute"}


def members(pool: str, **fields: Any) -> Members:
    return Members(context="c", pool=pool, **fields)


def node(name: str, **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": parts.get("labels", {})}
    if "manager" in parts:
        metadata["managedFields"] = [{"manager": parts["manager"], "operation": "Apply"}]
    status = {
        "allocatable": {"nvidia.com/gpu": str(parts.get("allocatable", 0))},
        "capacity": {"nvidia.com/gpu": str(parts.get("capacity", parts.get("allocatable", 0)))},
    }
    return {"metadata": metadata, "spec": {"taints": parts.get("taints")}, "status": status}


def test_taints_of_others_stay() -> None:
    assert taints_wanted([OTHER], [], [GPU]) == [OTHER, GPU]
    assert taints_wanted([OTHER, GPU], [GPU], []) == [OTHER]


def test_a_taint_that_is_there_already_is_not_added_twice() -> None:
    assert taints_wanted([GPU], [], [GPU]) == [GPU]


def test_a_taint_of_others_with_another_value_is_refused() -> None:
    with pytest.raises(ClusterError, match="found value 'true', which this stack did not set"):
        taints_wanted([{**GPU, "value": "true"}], [], [GPU])


def test_a_recorded_taint_whose_value_changed_is_replaced() -> None:
    old = {**GPU, "value": "true"}
    assert taints_wanted([old], [old], [GPU]) == [GPU]


def test_every_missing_node_is_named_at_once() -> None:
    pool = members("a100", nodes=("gpu-1", "gpu-8", "gpu-9"))
    with pytest.raises(ClusterError) as caught:
        pool_members([node("gpu-1")], pool)
    assert [f"node {name}: found no such node" in str(caught.value) for name in ("gpu-8", "gpu-9")]
    assert str(caught.value).count("found no such node") == 2


def test_a_node_that_joins_in_this_run_may_be_missing() -> None:
    pool = members("a100", nodes=("gpu-1", "gpu-8"), joining=("gpu-8",))
    assert pool_members([node("gpu-1")], pool) == [node("gpu-1")]
    assert pool_members([], members("a", selector={"a": "b"}, count=1, joining=("n",))) == []
    with pytest.raises(ClusterError, match="node gpu-8: found no such node"):
        pool_members([node("gpu-1")], replace(pool, joining=()))


def test_a_selector_must_find_as_many_nodes_as_declared() -> None:
    pool = members("l4", selector={"kind": "l4"}, count=2)
    with pytest.raises(ClusterError, match="selector kind=l4: found 1 node; wanted: the 2"):
        pool_members([node("a", labels={"kind": "l4"}), node("b")], pool)


def test_devices_of_slices_count_as_a_node_s_own() -> None:
    def devices(node_name: str, generation: int, *kinds: str, **extra: object) -> dict[str, object]:
        listed = [{"name": k, "attributes": {"type": {"string": k}}, **extra} for k in kinds]
        pool = {"name": node_name, "generation": generation}
        spec = {"driver": "gpu.nvidia.com", "nodeName": node_name, "pool": pool}
        return {"spec": {**spec, "devices": listed}}

    slices = [
        devices("n", 1, "gpu", "gpu", "gpu"),
        devices("n", 2, "gpu", "mig"),
        devices("n", 2, "gpu", taints=[{"key": "a", "effect": "NoSchedule"}]),
        devices("m", 2, "gpu"),
    ]
    (counted,) = count_devices([node("n", allocatable=0)], slices, "gpu.nvidia.com")
    assert gpus(counted, resource="gpu.nvidia.com") == 1
    assert gpus(counted, "capacity", "gpu.nvidia.com") == 2


@pytest.mark.parametrize(
    ("taint", "free"),
    [
        ({"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}, 0),
        ({"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}, 0),
        ({"key": "example.com/repair", "effect": "NoExecute"}, 0),
        # An Xid of an application, and a GPU that the driver can't monitor.
        ({"key": "gpu.nvidia.com/xid", "value": "31", "effect": "None"}, 1),
        ({"key": "gpu.nvidia.com/unmonitored", "effect": "None"}, 1),
    ],
)
def test_a_taint_takes_a_device_away_only_if_the_scheduler_obeys_it(
    taint: dict[str, str], free: int
) -> None:
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}, "taints": [taint]}
    pool = {"name": "n", "generation": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": pool, "devices": [device]}
    (counted,) = count_devices([node("n", allocatable=0)], [{"spec": spec}], "gpu.nvidia.com")
    assert gpus(counted, resource="gpu.nvidia.com") == free
    assert gpus(counted, "capacity", "gpu.nvidia.com") == 1


def test_values_are_the_same_whether_absent_null_or_empty() -> None:
    assert same_values({"a": {"b": None}, "c": 1}, {"a": {}, "c": 1})
    assert same_values(None, {})
    assert not same_values({"a": [1]}, {"a": [1, 2]})
    assert not same_values({"a": 1}, {"a": 2})


def test_a_release_record_is_read_as_helm_writes_it() -> None:
    packed = base64.b64encode(gzip.compress(json.dumps({"config": {"a": 1}}).encode()))
    secret = {"data": {"release": base64.b64encode(packed).decode()}}
    assert decode_release(secret) == {"config": {"a": 1}}


def test_a_runtime_class_is_ours_until_somebody_takes_it_over() -> None:
    made = runtime_class.manifest("nvidia")
    assert runtime_class.is_ours(made)
    assert runtime_class.policy(made) is None
    owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "p", "uid": "u"}
    taken = {**made, "metadata": {**made["metadata"], "ownerReferences": [owner]}}
    assert not runtime_class.is_ours(taken)
    assert runtime_class.policy(taken) == owner
    theirs = {**made, "metadata": {"name": "nvidia"}}
    assert not runtime_class.is_ours(theirs)
    assert runtime_class.policy(theirs) is None


def test_failed_requests_are_faults_of_one_form() -> None:
    async def fail(name: str) -> None:
        raise ClusterError(Fault(f"node {name}", "nothing\n", "a label", "write it"))

    with pytest.raises(ClusterError) as caught:
        asyncio.run(gather(fail, ["gpu-2", "gpu-1", "gpu-2"]))
    assert str(caught.value).splitlines() == [
        "node gpu-1: found nothing\\n; wanted: a label; cure: write it",
        "node gpu-2: found nothing\\n; wanted: a label; cure: write it",
    ]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301
