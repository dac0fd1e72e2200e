"""Tolerations of pods that must run on nodes with GPUs."""

from __future__ import annotations

from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.nodes.taint import STARTUP_TAINT, Taint, Toleration

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def _taints_of_pool(pool: Pool) -> tuple[Taint, ...]:
    """Return all taints that this program may set on a pool's nodes."""
    return (*pool.taints, *((STARTUP_TAINT,) if pool.has_startup_taint else ()))


def tolerations(
    pools: tuple[Pool, ...], more: tuple[Taint, ...] = (), declared: tuple[Toleration, ...] = ()
) -> list[dict[str, str]]:
    """Return one toleration for each taint of the pools, and the declared tolerations.

    Args:
        pools: Pools on whose nodes the pods run.
        more: Taints of single nodes, which the pods must also tolerate.
        declared: Tolerations of the stack file (`scheduling.tolerations`), for other taints.

    Returns:
        The tolerations without duplicates; those for taints are sorted.
    """
    result = {
        (taint.key, taint.value, str(taint.effect))
        for taints in (*map(_taints_of_pool, pools), more)
        for taint in taints
    }
    of_taints = [
        {"key": key, "operator": "Equal", "value": value, "effect": effect}
        if value
        else {"key": key, "operator": "Exists", "effect": effect}
        for key, value, effect in sorted(result)
    ]
    return [
        *of_taints,
        *(toleration.plain for toleration in declared if toleration.plain not in of_taints),
    ]


def discovery_tolerations(pods: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the tolerations of Node Feature Discovery's worker.

    The charts' defaults tolerate few values of `nvidia.com/gpu` and no other key. A node without
    the worker gets no labels and therefore no device plugin (k8s-device-plugin v0.20.0 and
    gpu-operator v26.7.0, values.yaml, `worker.tolerations`).

    Args:
        pods: Tolerations of GPU pods, which the worker also gets.
    """
    # The charts have the same toleration in their default values; the taint has no value.
    control_plane = {"key": CONTROL_PLANE, "operator": "Equal", "value": "", "effect": "NoSchedule"}
    return [control_plane, *pods]
