"""Shares of GPUs as HAMi notes them on nodes and pods. Pure functions.

Memory and cores are no resources of nodes: HAMi's scheduler counts them by annotations. Sources:
Project-HAMi/HAMi v2.10.0 (4707fb02), pkg/device/devices.go (`MarshalNodeDevices`,
`EncodePodSingleDevice`) and pkg/device/nvidia/device.go.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from gpu_rules.kube.gpu_resources import HAMI_CORES, HAMI_MEMORY

Json = dict[str, Any]

REGISTERED: Final = "hami.io/node-nvidia-register"
"""Annotation of a Node with its GPUs, as JSON."""
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
"""Annotation of a pod with the share of a GPU that each of its containers has."""
_LONGEST: Final = 64 * 1024
"""Maximum number of characters of an annotation that is read."""
_SHARE = re.compile(r"[^,:;]{1,128},NVIDIA,([0-9]{1,9}),([0-9]{1,5})(?=:)")


def shares_of_pod(pod: Json) -> dict[str, int]:
    """Return the GPU memory (MiB) and the cores that HAMi assigned to a pod; empty for others."""
    text = str((pod["metadata"].get("annotations") or {}).get(ALLOCATED, ""))
    shares = _SHARE.findall(text) if len(text) <= _LONGEST else []
    if not shares:
        return {}
    return {
        HAMI_MEMORY: sum(int(memory) for memory, _ in shares),
        HAMI_CORES: sum(int(cores) for _, cores in shares),
    }


def gpus_of_node(node: Json) -> int:
    """Return the number of GPUs that HAMi registered on a node, with those that are unhealthy."""
    return len(_registered(node))


def shares_of_node(node: Json) -> dict[str, int]:
    """Return the memory (MiB) and the cores of the healthy GPUs that HAMi registered on a node."""
    entries = _registered(node)
    if not entries:
        return {}
    healthy = [entry for entry in entries if entry.get("health")]
    try:
        return {
            HAMI_MEMORY: sum(int(entry["devmem"]) for entry in healthy),
            HAMI_CORES: sum(int(entry["devcore"]) for entry in healthy),
        }
    except (ValueError, TypeError, KeyError):
        return {}  # Anyone who may change the Node can write the annotation.


def _registered(node: Json) -> list[Json]:
    """Return the entries of the annotation, one for each GPU; empty if it has another form."""
    text = str((node["metadata"].get("annotations") or {}).get(REGISTERED, ""))
    if not text or len(text) > _LONGEST:
        return []
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return []
    is_list = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    return entries if is_list else []


def with_shares(node: Json) -> Json:
    """Return a Node whose allocatable resources include what HAMi registered."""
    shares = shares_of_node(node)
    if not shares:
        return node
    status = node.get("status") or {}
    allocatable = {**(status.get("allocatable") or {}), **{k: str(v) for k, v in shares.items()}}
    return {**node, "status": {**status, "allocatable": allocatable}}
