"""What a node's last validation proved, and whether it still holds. Pure functions.

It is the annotation `RECORD` of the node, so that a run that changes nothing learns it from the
list of nodes. Its facts are compared one by one where both sides have them: a label of feature
discovery that comes a minute after the first validation isn't a change.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from components.desired.validation import PoolValidation
from components.kubernetes.api import Json

RECORD = "gpu-cluster/validation"
"""Annotation of validated nodes."""
SETTINGS = "settings."
"""Before the facts that a person declares; the others are observed."""
BOUND = 32 * 1024
"""Characters of a record that are read: 112 MIG devices take some 6,000."""

_LABELS = {
    "driver": ("nvidia.com/cuda.driver-version.full", "nvidia.com/cuda.driver.rev"),
    "product": ("nvidia.com/gpu.product",),
    "mig": ("nvidia.com/mig.config", "nvidia.com/mig.strategy"),
}
"""Labels of GPU feature discovery and MIG manager (k8s-device-plugin v0.20.0, internal/lm)."""
_NODE_INFO = {
    "boot": "bootID",
    "kernel": "kernelVersion",
    "runtime": "containerRuntimeVersion",
}


@dataclass(frozen=True)
class ValidationRecord:
    """A node's last validation.

    Attributes:
        facts: what it stands for; with any of them changed it says nothing any more.
        devices: GPUs that ran a kernel by UUID, each with those of its MIG devices that did.
        since: when the last of them did, in UTC.
        missing: devices that did not, because others held them.
        holders: digest of who held them; empty where none is missing.
        held: who held them, in words (`components.nodes.gpu_holders.named`).
        simulated: whether no GPU ran the kernels.
        manager: field manager of the pool that it belongs to.
        host: the host that was prepared before; empty: the stack has none for the node.
    """

    facts: dict[str, str] = field(default_factory=dict)
    devices: dict[str, list[str]] = field(default_factory=dict)
    since: str = ""
    missing: int = 0
    holders: str = ""
    simulated: bool = False
    manager: str = ""
    held: str = ""
    host: str = ""

    @property
    def count(self) -> int:
        """Devices that ran a kernel."""
        return sum(len(instances) or 1 for instances in self.devices.values())

    def gpus(self, instances: int) -> int:
        """GPUs all of whose devices ran a kernel.

        Args:
            instances: MIG devices of each GPU, 0 without MIG.
        """
        return sum(len(device) == instances for device in self.devices.values())


def encode(record: ValidationRecord) -> str:
    """The annotation's value."""
    return json.dumps(asdict(record), separators=(",", ":"), sort_keys=True)


def decode(node: Json) -> ValidationRecord | None:
    """A node's record; None where it has none, or what isn't one."""
    text = (node["metadata"].get("annotations") or {}).get(RECORD)
    if not text or len(text) > BOUND:
        return None
    try:
        kept = ValidationRecord(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return kept if _is_sound(kept) else None


def _is_sound(record: ValidationRecord) -> bool:
    texts = (record.since, record.holders, record.held, record.manager, record.host)
    return (
        all(isinstance(text, str) for text in texts)
        and isinstance(record.missing, int)
        and isinstance(record.simulated, bool)
        and isinstance(record.facts, dict)
        and all(isinstance(fact, str) for fact in record.facts.values())
        and isinstance(record.devices, dict)
        and all(
            isinstance(device, list) and all(isinstance(one, str) for one in device)
            for device in record.devices.values()
        )
    )


def facts(node: Json, pool: PoolValidation, daemon_sets: list[Json]) -> dict[str, str]:
    """What a validation of a node stands for.

    Args:
        node: the Node.
        pool: its pool.
        daemon_sets: those of the cluster.
    """
    name = node["metadata"]["name"]
    labels = node["metadata"].get("labels") or {}
    info = node.get("status", {}).get("nodeInfo") or {}
    settings = pool.own.get(name, pool.settings)
    result = {SETTINGS + setting: value for setting, value in settings.items()}
    result |= {fact: str(info.get(key) or "") for fact, key in _NODE_INFO.items()}
    result |= {
        fact: next((str(labels[key]) for key in keys if key in labels), "")
        for fact, keys in _LABELS.items()
    }
    for daemon_set in daemon_sets:
        metadata, pod = daemon_set["metadata"], daemon_set["spec"]["template"]["spec"]
        selector = pod.get("nodeSelector") or {}
        here = all(labels.get(key) == value for key, value in selector.items())
        if metadata["namespace"] in pool.spaces and here:
            result[f"DaemonSet {metadata['name']}"] = _programs(pod)
    return {fact: value for fact, value in result.items() if value}


def _programs(pod: Json) -> str:
    """A digest of what a pod runs; where it may run and who pulls its images isn't a part of it."""
    keys = ("name", "image", "command", "args", "env")
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    parts = [{key: container.get(key) for key in keys} for container in containers]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def changes(record: ValidationRecord, now: dict[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Return the facts that differ from those of a record: each what it was, and what it is."""
    return tuple(
        (fact, record.facts[fact], value)
        for fact, value in sorted(now.items())
        if fact in record.facts and record.facts[fact] != value
    )


def now() -> str:
    """The time of a result, to the second."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
