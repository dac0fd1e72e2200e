"""Types: the cause why a pod does not run, and the objects from which the cause is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_cluster.kubernetes.api import Json
from gpu_rules.printable import printable

SHOWN = 400
"""Maximum number of characters of one message or log line."""


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
        nodes: All nodes.
        pods: All pods.
        quotas: ResourceQuotas of the pod's namespace.
        slices: ResourceSlices of the cluster.
        logs: Last lines of the logs of containers that ended, by the container's name.
        trusted_events: Whether only people whom the stack trusts can write the events. If not,
            events are quoted, and their words choose no cure.
    """

    events: tuple[Json, ...] = ()
    nodes: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    quotas: tuple[Json, ...] = ()
    slices: tuple[Json, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    trusted_events: bool = False


def shown(text: object) -> str:
    """Return a message as one shortened line without unprintable characters."""
    return printable(" ".join(str(text or "no message").split()), SHOWN)


def last_line(text: str) -> str:
    """Return the last non-blank line of a text, shortened and without unprintable characters."""
    lines = [line for line in text.splitlines() if line.strip()]
    return printable(lines[-1].strip(), SHOWN) if lines else ""
