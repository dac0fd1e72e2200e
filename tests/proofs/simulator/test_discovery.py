"""Node Feature Discovery only labels GPU nodes whose taints its worker tolerates."""

from __future__ import annotations

from gpu_cluster_lab.simulator.controller.discovery import PCI
from tests.proofs.simulator.running import Running, until

TAINT = {"key": "example.com/queue", "value": "batch", "effect": "NoSchedule"}


def labelled(cluster: Running) -> set[str]:
    nodes = cluster.items("/api/v1/nodes")
    return {node["metadata"]["name"] for node in nodes if PCI in node["metadata"]["labels"]}


def test_a_taint_that_the_worker_does_not_tolerate_keeps_its_label_away(cluster: Running) -> None:
    assert labelled(cluster) == set()
    cluster.request("PATCH", "/api/v1/nodes/gpu-2", {"spec": {"taints": [TAINT]}})
    try:
        cluster.discover()
        until(lambda: labelled(cluster), lambda value: value == {"gpu-1", "gpu-3"})
    finally:
        cluster.request("PATCH", "/api/v1/nodes/gpu-2", {"spec": {"taints": None}})
    until(lambda: labelled(cluster), lambda value: value == {"gpu-1", "gpu-2", "gpu-3"})
    cluster.clear()
    until(lambda: labelled(cluster), lambda value: not value)
