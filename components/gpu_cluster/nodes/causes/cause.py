"""Types: the cause why a pod does not run, and the objects from which the cause is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.causes.cures import is_known
from gpu_rules.printable import printable

SHOWN = 400
"""Maximum number of characters of one message or log line."""
LOG_LINES = 20
"""Maximum number of lines of a log that are read."""


class Kind(StrEnum):
    """Kinds of causes why a pod does not run."""

    ADMISSION = "admission"
    AFFINITY = "affinity"
    CLAIM = "claim"
    CONTAINER = "container"
    CORDON = "cordon"
    CRASH = "crash"
    DEADLINE = "deadline"
    DELETION = "deletion"
    EVICTION = "eviction"
    FRAGMENTATION = "fragmentation"
    GATE = "gate"
    IMAGE = "image"
    MOUNT = "mount"
    NODE = "node"
    PREEMPTION = "preemption"
    PROBE = "probe"
    QUOTA = "quota"
    RESOURCE_NAME = "resource-name"
    SANDBOX = "sandbox"
    SCHEDULING = "scheduling"
    TAINT = "taint"
    UNKNOWN = ""
    WAIT = "wait"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """The cause why a pod does not run.

    Attributes:
        kind: Kind of the cause.
        text: The cause as one printable sentence without a full stop.
        cure: What the user can do. Empty: the user can only wait.
    """

    kind: Kind
    text: str
    cure: str = ""

    def __str__(self) -> str:
        """Return the cause and its cure as one line."""
        return f"{self.text}; cure: {self.cure}" if self.cure else self.text


@dataclass(frozen=True, kw_only=True)
class Around:
    """Objects of the cluster that explain why a pod does not run; all of them are optional.

    Attributes:
        events: Events of the pod, or of the controller that can't create it.
        trusted_events: Whether only people whom the stack trusts can write the events. If not,
            events are quoted, and their words choose no cure.
        nodes: All nodes.
        pods: All pods.
        platform_namespaces: Namespaces in which a pod with the image of a device plugin is one. A
            tenant may run any image elsewhere. None: not known.
        quotas: ResourceQuotas of the pod's namespace.
        slices: ResourceSlices of the cluster.
        claims: ResourceClaims of the pod's namespace.
        workloads: Kueue's Workloads of the pod's namespace.
        controllers: Controllers of the namespace that may have to create the pod.
        logs: End of the logs of containers, by the container's name.
        now: The time of the reading. None: the age of a state explains nothing.
    """

    events: tuple[Json, ...] = ()
    trusted_events: bool = False
    nodes: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    platform_namespaces: frozenset[str] | None = None
    quotas: tuple[Json, ...] = ()
    slices: tuple[Json, ...] = ()
    claims: tuple[Json, ...] = ()
    workloads: tuple[Json, ...] = ()
    controllers: tuple[Json, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    now: datetime | None = None

    def minutes_since(self, time: object) -> int:
        """Return how many whole minutes have passed since a time in RFC 3339; 0 if unknown."""
        if self.now is None or not time:
            return 0
        try:
            return int((self.now - datetime.fromisoformat(str(time))).total_seconds()) // 60
        except (TypeError, ValueError, OverflowError):
            return 0


def shown(text: object) -> str:
    """Return a message as one shortened line without unprintable characters."""
    return printable(" ".join(str(text or "no message").split()), SHOWN)


def telling_line(log: str) -> str:
    """Return the last line of a log for which there is a specific cure, else the last line.

    Blank lines don't count; the line is shortened and has no unprintable characters.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()][-LOG_LINES:]
    known = [line for line in lines if is_known(line)]
    return printable((known or lines or [""])[-1], SHOWN)
