"""Tolerations of pods that must run on nodes with GPUs. Pure."""

from __future__ import annotations

from components.settings.nodes.pool import Pool
from components.settings.nodes.taint import STARTUP_TAINT, Taint

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def _taints(pool: Pool) -> tuple[Taint, ...]:
    """All taints that a pool's nodes may bear by us."""
    return (*pool.taints, *((STARTUP_TAINT,) if pool.has_startup_taint else ()))


def tolerations(pools: tuple[Pool, ...], *more: tuple[Taint, ...]) -> list[dict[str, str]]:
    """Return one toleration for each taint of the pools, without repeats, in a stable order.

    Args:
        pools: whose nodes the pods run on.
        more: taints of single nodes, which the platform's pods must tolerate, too.
    """
    result = {
        (taint.key, taint.value, str(taint.effect))
        for taints in (*map(_taints, pools), *more)
        for taint in taints
    }
    return [
        {"key": key, "operator": "Equal", "value": value, "effect": effect}
        if value
        else {"key": key, "operator": "Exists", "effect": effect}
        for key, value, effect in sorted(result)
    ]


def discovery_tolerations(pods: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return what Node Feature Discovery's worker tolerates, from what GPU pods tolerate.

    Charts let it tolerate few values of ``nvidia.com/gpu`` and no other key, and a node on which
    it does not run gets no label, so no plugin (k8s-device-plugin v0.20.0 and gpu-operator
    v26.7.0, values.yaml, ``worker.tolerations``).
    """
    return [{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}, *pods]
