"""Record of a node's last validation, and whether the record is still valid. Pure functions.

The record is the annotation `RECORD` of the node, so that a run can read all records from the list
of nodes. Only facts that exist in the record and now are compared: a label that GPU Feature
Discovery sets a minute after the first validation is not a change.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from gpu_cluster import requests
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.kubernetes.resources import DRIVER_LABEL

RECORD = "gpu-cluster/validation"
"""Key of the annotation on a validated node that contains the validation record."""
SETTINGS = "settings."
"""Prefix of the facts that come from the stack's settings; all other facts are observed."""
BOUND = 32 * 1024
"""Maximum number of characters of a record that are parsed; 112 MIG devices need about 6,000."""

_COUNT = re.compile(r"[0-9]{1,6}")
_LABELS = {
    "driver": (DRIVER_LABEL, "nvidia.com/cuda.driver.rev"),
    "product": ("nvidia.com/gpu.product",),
    "mig": ("nvidia.com/mig.config", "nvidia.com/mig.strategy"),
}
"""Labels of GPU Feature Discovery and MIG manager (k8s-device-plugin v0.20.0, internal/lm)."""
_NODE_INFO = {
    "boot": "bootID",
    "kernel": "kernelVersion",
    "runtime": "containerRuntimeVersion",
}


@dataclass(frozen=True)
class ValidationRecord:
    """Result of a node's last validation.

    Attributes:
        facts: Facts under which the validation is valid; a change of any fact invalidates the
            record.
        devices: UUIDs of the GPUs that ran a kernel, each with the UUIDs of its MIG devices that
            ran a kernel.
        since: Time when the last of these devices ran its kernel, UTC.
        missing: Number of devices that ran no kernel because other pods held them.
        holders: Digest of the pods or claims that held the missing devices. Empty if none is
            missing.
        held: Text that names these holders (`gpu_cluster.nodes.gpu_holders.named`).
        simulated: Whether the kernels were only simulated.
        manager: Field manager of the pool that the node belongs to.
        host: Name of the host that was prepared for this node. Empty: the stack has no host for the
            node.
        stack: Name of the stack whose Command of all pools owns the record. Empty: a Command of one
            pool wrote it, in an earlier version.
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
    stack: str = ""

    @property
    def count(self) -> int:
        """Return the number of devices that ran a kernel."""
        return sum(len(instances) or 1 for instances in self.devices.values())

    @property
    def declared(self) -> int:
        """Return the number of GPUs that the node was declared to have; 0 if it is unknown."""
        text = self.facts.get(f"{SETTINGS}gpusPerNode", "")
        return int(text) if _COUNT.fullmatch(text) else 0

    def gpus(self, instances: int) -> int:
        """Return the number of GPUs all of whose devices ran a kernel.

        Args:
            instances: Number of MIG devices per GPU; 0 without MIG.
        """
        return sum(len(device) == instances for device in self.devices.values())


def encode(record: ValidationRecord) -> str:
    """Return the JSON value of the node's annotation for a validation record."""
    return json.dumps(asdict(record), separators=(",", ":"), sort_keys=True)


def decode(node: Json) -> ValidationRecord | None:
    """Return the validation record in a node's annotation; None if missing or malformed."""
    text = (node["metadata"].get("annotations") or {}).get(RECORD)
    return requests.kept(ValidationRecord, text, BOUND)


async def list_daemon_sets(client: Client, pools: Iterable[PoolValidation]) -> list[Json]:
    """Return the DaemonSets in namespaces of the platform.

    `facts` compares each with each node, and a tenant may create any number elsewhere.

    Args:
        pools: Pools with these namespaces.
    """
    spaces = {space for pool in pools for space in pool.spaces}
    listed = await client.list("daemonsets", base="/apis/apps")
    return [item for item in listed if item["metadata"]["namespace"] in spaces]


def facts(node: Json, pool: PoolValidation, daemon_sets: list[Json]) -> dict[str, str]:
    """Return the facts under which a validation of a node is valid.

    Args:
        daemon_sets: DaemonSets from `list_daemon_sets`.
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
        matches_node = all(labels.get(key) == value for key, value in selector.items())
        if metadata["namespace"] in pool.spaces and matches_node:
            result[f"DaemonSet {metadata['name']}"] = _digest_programs(pod)
    return {fact: value for fact, value in result.items() if value}


def _digest_programs(pod: Json) -> str:
    """Return a digest of the containers that a pod runs.

    Node selectors and pull secrets don't change the digest.
    """
    keys = ("name", "image", "command", "args", "env")
    containers = [*(pod.get("initContainers") or []), *pod["containers"]]
    programs = [{key: container.get(key) for key in keys} for container in containers]
    return hashlib.sha256(json.dumps(programs, sort_keys=True).encode()).hexdigest()[:12]


def changes(record: ValidationRecord, now: dict[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Return the facts that changed since the record was made, as (fact, old value, new value)."""
    return tuple(
        (fact, record.facts[fact], value)
        for fact, value in sorted(now.items())
        if fact in record.facts and record.facts[fact] != value
    )


def now() -> str:
    """Return the current time in UTC, to the second."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
