"""Outputs that the stack exports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pulumi

from gpu_cluster.cluster import GpuCluster
from gpu_cluster.settings.nodes.pool import Pool


def totals(nodes: list[dict[str, Any]]) -> dict[str, int]:
    """Return the total numbers of declared, computed, simulated and deferred GPUs, by these words.

    A GPU is `computed` if it ran a kernel, `simulated` if the simulator pretended to run a kernel,
    and `deferred` if its validation waits because another pod uses the GPU.
    """
    kinds = ("declared", "computed", "simulated", "deferred")
    return {kind: sum(int(node[kind]) for node in nodes) for kind in kinds}


def without_uuids(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the validation's results without the UUIDs, each of which the engine prints in a line.

    The nodes keep them (`gpu_cluster.nodes.record`).
    """
    return [{key: value for key, value in node.items() if key != "devices"} for node in nodes]


def left_out(pools: Iterable[Pool]) -> dict[str, list[int | str]]:
    """Return the indexes and UUIDs of the unhealthy GPUs, which get no pods, by node.

    These GPUs are not counted as declared.
    """
    return {
        node: [*sorted(devices.index), *sorted(devices.uuid)]
        for pool in pools
        for node, devices in pool.unhealthy_devices.items()
        if devices.index or devices.uuid
    }


def next_commands(context: str, namespace: str) -> list[str]:
    """Return the commands that a person would run next.

    Args:
        namespace: Namespace of the validation.
    """
    return [
        f"kubectl --context {context} get nodes -L nvidia.com/gpu",
        f"kubectl --context {context} get pods -n {namespace}",
        "pulumi preview",
    ]


def export(built: GpuCluster) -> None:
    """Export the cluster's results as outputs of the stack."""
    desired = built.desired
    pulumi.export("nodes", built.nodes.apply(without_uuids))
    pulumi.export("gpus", built.nodes.apply(totals))
    pulumi.export("unhealthyDevices", left_out(desired.platform.site.pools))
    pulumi.export("tests", built.tests)
    pulumi.export("maintenance", list(desired.layouts.maintenance))
    pulumi.export("charts", built.charts)
    pulumi.export("next", next_commands(desired.context, desired.validation.namespace))
    if desired.kubeadm is not None:
        pulumi.export("kubeconfig", built.kubeconfig)
        pulumi.export("joinToken", built.join_token)
