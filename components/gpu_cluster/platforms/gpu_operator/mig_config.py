"""MIG layouts whose names change with their content.

MIG manager changes a node only if the node's label names another layout, not if the content of a
layout changes (NVIDIA/mig-parted v0.15.0, cmd/nvidia-mig-manager/main.go,
ContinuouslySyncMigConfigChanges).
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from gpu_cluster.kubernetes.resources import ALL_DISABLED, MIG_LABEL
from gpu_cluster.settings.nodes.pool import Pool
from gpu_rules.kube.names import LABEL_LIMIT

CONFIG_MAP = "gpu-cluster-mig-layouts"
DIGITS = 8
"""Number of hexadecimal digits of the digest in the name of a MIG layout."""


def layout(pool: Pool) -> str:
    """Return the name of the MIG layout of a pool's nodes; empty if the pool declares none.

    The name contains the MIG devices of each GPU, such as `7x1g.5gb-8101c35d`. It does not contain
    the pool's name; otherwise the GPUs of a renamed pool would be partitioned again without need. A
    label's value has at most 63 letters, digits and `-_.` (Kubernetes documentation, "Labels and
    Selectors").
    """
    if not pool.mig:
        return str(pool.labels.get(MIG_LABEL, ""))
    content = json.dumps(dict(pool.mig), sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:DIGITS]
    devices = "-".join(f"{count}x{profile}" for profile, count in sorted(pool.mig.items()))
    plain = re.sub(r"[^A-Za-z0-9.-]", ".", devices)[: LABEL_LIMIT - DIGITS - 1].rstrip(".-")
    return f"{plain}-{digest}"


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
