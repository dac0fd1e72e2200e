"""A node gets the stack's device plugin only after the plugin of another Helm release has left."""

from __future__ import annotations

import asyncio

from gpu_cluster.release import clear
from tests.proofs.simulator.running import Json
from tests.proofs.simulator.validating import Stack


def inputs(*nodes: str) -> Json:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in nodes
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = {"affinity": {"nodeAffinity": required}}
    return {"kind": "DaemonSet", "spec": {"template": {"spec": pod}}}


def test_a_plugin_of_ours_waits_until_the_release_s_has_left_its_nodes(stack: Stack) -> None:
    stack.cluster.wait_gpus("gpu-1", "8", "8")
    own = clear.OwnServers(
        context=stack.document.context,
        namespace="default",
        selector="app.kubernetes.io/name=nvidia-device-plugin",
        declared=[],
        release="plugin",
    )

    async def hand_over() -> None:
        # On a node where no other plugin runs, `clear.servers` must not wait.
        await asyncio.wait_for(clear.servers(own, inputs("control-plane-1")), 30)
        waiting = asyncio.create_task(clear.servers(own, inputs("gpu-1")))
        await asyncio.wait([waiting], timeout=2)
        assert not waiting.done()
        await asyncio.to_thread(stack.cluster.remove_plugin)
        assert await asyncio.wait_for(waiting, 60) == []

    asyncio.run(hand_over())
    assert stack.cluster.pods(**{"app.kubernetes.io/name": "nvidia-device-plugin"}) == []
