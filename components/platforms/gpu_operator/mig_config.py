"""Layouts of MIG devices, by names that change with their content.

MIG manager acts when its node's label names another layout, never because a layout's content
changed (NVIDIA/mig-parted v0.15.0, cmd/nvidia-mig-manager/main.go,
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
"""Of the content's digest."""


def layout(pool: Pool) -> str:
    """The layout that a pool's nodes should have; empty where none is declared."""
    if not pool.mig:
        return str(pool.labels.get(MIG_LABEL, ""))
    content = json.dumps(dict(pool.mig), sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:DIGITS]
    return f"{pool.name}-{digest}"


def layouts(pools: tuple[Pool, ...]) -> dict[str, Any]:
    """Return a layout per pool with MIG devices, and one without any.

    Format: NVIDIA/mig-parted, api/spec/v1. A ConfigMap of ours stands instead of the one that MIG
    manager makes from the hardware, so ``all-disabled`` has to be in it.
    """
    divided = {
        layout(pool): [{"devices": "all", "mig-enabled": True, "mig-devices": dict(pool.mig)}]
        for pool in pools
        if pool.mig
    }
    if not divided:
        return {}
    return {ALL_DISABLED: [{"devices": "all", "mig-enabled": False}], **divided}
