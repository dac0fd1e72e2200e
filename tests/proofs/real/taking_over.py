"""A stack takes over the GPU software of the real nodes, and hands it back."""

from __future__ import annotations

from typing import Any

from lab.real.lab import GPUS, REAL, SIMULATED, Lab
from lab.real.stack import Stack

ALL = (*REAL, *SIMULATED)
LAB_LIMIT = 3600.0
"""Seconds to wait for other tests on these nodes, which another test process may run."""
# Security context for containers that need GPUs without requesting them. On these nodes the NVIDIA
# Container Toolkit ignores NVIDIA_VISIBLE_DEVICES of unprivileged containers.
PRIVILEGED: dict[str, Any] = {"privileged": True}


def lives(lab: Lab, namespace: str) -> dict[str, tuple[str, str, list[tuple[str, int]]]]:
    """Return for each pod of a namespace its UID, its start time and its containers' starts.

    For each container, the start time and the number of restarts are returned. Init containers come
    first.
    """
    found = {}
    for pod in lab.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]:
        status = pod["status"]
        containers = [
            (state["startedAt"], each["restartCount"])
            for part in ("initContainerStatuses", "containerStatuses")
            for each in status.get(part, [])
            for state in each["state"].values()
        ]
        metadata = pod["metadata"]
        found[metadata["name"]] = (metadata["uid"], status["startTime"], containers)
    return found


def taken_over_and_handed_back(lab: Lab, stack: Stack, namespace: str) -> None:
    """Adopt the cluster, run `up` twice, and leave it; no pod may restart.

    Args:
        lab: The test cluster; its nodes have no taint of the stack.
        stack: The project, without a stack file.
        namespace: Namespace of the cluster's GPU software.
    """
    for name in ALL:
        lab.wait_offered(name, "nvidia.com/gpu", (GPUS, GPUS))
    before = lives(lab, namespace)
    taints = {name: lab.node(name)["spec"].get("taints") for name in ALL}
    assert len(before) >= len(ALL)
    stack.command("adopt")
    output = stack.command("up")
    gpus = len(ALL) * GPUS
    assert f"up: {gpus} of {gpus} GPUs simulated" in output, output
    assert lives(lab, namespace) == before
    assert {name: lab.node(name)["spec"].get("taints") for name in ALL} == taints
    assert ", 0 resources changed" in stack.command("up")
    stack.command("leave")
    assert lives(lab, namespace) == before
    assert {name: lab.node(name)["spec"].get("taints") for name in ALL} == taints
    for name in ALL:
        assert lab.offered(name)["nvidia.com/gpu"] == (GPUS, GPUS)
        notes = lab.node(name)["metadata"].get("annotations", {})
        assert not [key for key in notes if key.startswith("gpu-cluster/")]
