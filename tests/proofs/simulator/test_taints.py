"""Taints of a pool's nodes, written to a real API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.nodes import node_scheduling
from tests.proofs.simulator.running import Json, Running
from tests.proofs.simulator.validating import given

KEY, EFFECT = "example.com/team", "PreferNoSchedule"


def tainted(cluster: Running, value: str) -> list[Json]:
    """Declare a taint with this value; return the node's taints with the same key afterwards."""
    taints = [{"key": KEY, "value": value, "effect": EFFECT}]
    declared = given("device-plugin", {"taints": taints})
    document = resolve(declared, "test").scheduling.pools[0]
    asyncio.run(node_scheduling.apply(replace(document, startup_taint=False)))
    return [taint for taint in cluster.node("gpu-1")["spec"]["taints"] if taint["key"] == KEY]


def test_another_value_of_a_taint_is_written(
    cluster: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.plane.kubeconfig))
    declared = given("device-plugin")
    document = resolve(declared, "test").scheduling.pools[0]
    try:
        assert [taint["value"] for taint in tainted(cluster, "a")] == ["a"]
        assert [taint["value"] for taint in tainted(cluster, "b")] == ["b"]
        assert [taint["value"] for taint in tainted(cluster, "b")] == ["b"]
    finally:
        asyncio.run(node_scheduling.release(document))
