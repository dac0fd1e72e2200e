"""200 simulated nodes get their GPUs, and validation finds the one node with a fault."""

from __future__ import annotations

import pytest

from gpu_cluster_lab.simulator import marks, set_fault
from tests.proofs.simulator.running import CLUSTER, Running, declared, until
from tests.simulated import simulate

COUNT = 200


@pytest.mark.slow
def test_two_hundred_nodes(cluster: Running) -> None:
    pool = {"name": "big", "nodes": [f"big-[001-{COUNT}]"], "gpusPerNode": 8}
    try:
        embedded = simulate(CLUSTER, declared(pool))
        assert embedded.nodes == COUNT + 1
        set_fault(CLUSTER, "big-117", "validation-fails")
        cluster.deploy_plugin()
        until(
            lambda: sum(
                node["status"]["allocatable"].get(marks.GPU) == "8"
                for node in cluster.items("/api/v1/nodes")
            ),
            lambda value: value == COUNT,
            limit=120,
            every=0.5,
        )
        # Each pod requests all GPUs of a node, so each node gets exactly one of the pods.
        cluster.validate(count=COUNT)
        pods = cluster.validation_pods("Succeeded", "Failed", count=COUNT)
        failed = [pod for pod in pods if pod["status"]["phase"] == "Failed"]
        assert {pod["spec"]["nodeName"] for pod in failed} <= {"big-117"}
        for pod in (*failed, *pods[:3]):
            assert cluster.log(pod)[0] == marks.SIMULATED
    finally:
        cluster.clear()
        simulate(CLUSTER, declared())
