"""Nodes in maintenance aren't changed or counted, stay cordoned, and may be missing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.nodes import node_scheduling
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab.simulator import marks
from tests.proofs.simulator.running import Running, declared
from tests.proofs.simulator.validating import Stack, given

pytestmark = pytest.mark.full

NODE = "/api/v1/nodes/gpu-3"


def resting(*names: str) -> Cluster:
    return given("device-plugin", maintenance=list(names))


def scheduling(cluster: Cluster) -> PoolScheduling:
    return resolve(cluster, "test").scheduling.pools[0]


def written(cluster: Running) -> Any:
    """Return the node gpu-3's labels, annotations and spec, without simulator annotations."""
    node = cluster.node("gpu-3")
    meta = node["metadata"]
    notes = {k: v for k, v in meta["annotations"].items() if not k.startswith(marks.GPUS[:9])}
    return meta["labels"], notes, node["spec"]


def test_a_node_in_maintenance_is_neither_touched_nor_counted(stack: Stack) -> None:
    asyncio.run(node_scheduling.apply(scheduling(declared())))
    try:
        stack.run()
        stack.cluster.request("PATCH", NODE, {"spec": {"unschedulable": True}})
        before = written(stack.cluster)
        out = resting("gpu-3")
        stack.document = stack.of(out, settings={"driver.version": "another"})
        relabelled = replace(scheduling(out), labels={"nvidia.com/gpu": "true", "new": "1"})
        asyncio.run(node_scheduling.apply(relabelled))
        assert stack.cluster.node("gpu-1")["metadata"]["labels"]["new"] == "1"
        assert set(stack.run()) == {"gpu-1", "gpu-2"}
        assert stack.finding() is None
        stack.forget()
        asyncio.run(node_scheduling.release(relabelled))
        assert "new" not in stack.cluster.node("gpu-1")["metadata"]["labels"]
        assert written(stack.cluster) == before
    finally:
        stack.cluster.request("PATCH", NODE, {"spec": {"unschedulable": None}})
        stack.document = stack.of(declared())
        stack.forget()
        asyncio.run(node_scheduling.release(scheduling(declared())))


def test_a_node_in_maintenance_may_be_missing(stack: Stack) -> None:
    stack.cluster.request("DELETE", NODE)
    with pytest.raises(ClusterError, match="node gpu-3: found no such node"):
        stack.run()
    stack.document = stack.of(resting("gpu-3"))
    assert set(stack.run()) == {"gpu-1", "gpu-2"}
