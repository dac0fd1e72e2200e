"""MIG layouts whose names change with their content.

MIG manager changes a node only if the node's label names another layout, not if the content of a
layout changes (NVIDIA/mig-parted v0.15.0, cmd/nvidia-mig-manager/main.go,
ContinuouslySyncMigConfigChanges).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from components.kubernetes.resources import ALL_DISABLED, MIG_LABEL
from components.settings.nodes.pool import Pool

CONFIG_MAP = "gpu-cluster-mig-layouts"
DIGITS = 8
"""Number of hexadecimal digits of the content's digest in a layout's name."""


def layout(pool: Pool) -> str:
    """Return the name of the MIG layout of a pool's nodes; empty if the pool declares none."""
    if not pool.mig:
        return str(pool.labels.get(MIG_LABEL, ""))
    content = json.dumps(dict(pool.mig), sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:DIGITS]
    return f"{pool.name}-{digest}"


def layouts(pools: tuple[Pool, ...]) -> dict[str, Any]:
    """Return a MIG layout for each pool with MIG devices, and the layout `all-disabled`.

    Format: NVIDIA/mig-parted, api/spec/v1. This ConfigMap replaces the one that MIG manager
    generates from the hardware, so it must also contain `all-disabled`. Return an empty mapping if
    no pool has MIG devices.
    """
    divided = {
        layout(pool): [{"devices": "all", "mig-enabled": True, "mig-devices": dict(pool.mig)}]
        for pool in pools
        if pool.mig
    }
    if not divided:
        return {}
    return {ALL_DISABLED: [{"devices": "all", "mig-enabled": False}], **divided}
