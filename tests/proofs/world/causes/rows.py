"""Read the situations of `situations/*.yaml`, and make the objects of the cluster from them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

Json = dict[str, Any]
SITUATIONS = Path(__file__).parent / "situations"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
"""The time at which the situations are read."""
MADE = timedelta(minutes=30)
"""Age of a pod for which a row names none."""


class Row(BaseModel):
    """Base of all parts of a situation."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def before(minutes: float) -> str:
    """Return the time so many minutes before `NOW`, as the API server writes it."""
    return (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


class State(Row):
    """State of a container.

    Attributes:
        waiting: Reason and message.
        running: Minutes since its start.
        ended: Exit code, reason and message of its last run.
        loops: Number of restarts of a container in a crash loop.
    """

    waiting: tuple[str, str] | None = None
    running: float | None = None
    ready: bool = False
    ended: tuple[int, str, str] | None = None
    loops: int = 0

    def status(self, name: str) -> Json:
        """Return the container's status."""
        status: Json = {"name": name, "ready": self.ready, "restartCount": self.loops}
        if self.ended:
            code, reason, message = self.ended
            end = {"exitCode": code, "reason": reason, "message": message, "startedAt": before(2)}
            back = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
            return status | {"state": back, "lastState": {"terminated": end}}
        if self.running is not None:
            return status | {"state": {"running": {"startedAt": before(self.running)}}}
        reason, message = self.waiting or ("PodInitializing", "")
        return status | {"state": {"waiting": {"reason": reason, "message": message}}}


class Pod(Row):
    """The pod that doesn't run.

    Attributes:
        requests: Limits of its first container.
        unscheduled: Message of its condition PodScheduled, if that is False.
        disrupted: Reason and message of its condition DisruptionTarget.
        minutes: Age of the pod.
    """

    namespace: str = "team"
    requests: Mapping[str, int] = {}
    scheduler: str = "default-scheduler"
    spec: Json = {}
    node: str = ""
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    unscheduled: str = ""
    disrupted: tuple[str, str] | None = None
    minutes: float = 30
    inits: Mapping[str, State] = {}
    containers: Mapping[str, State] = {}
    deleting: bool = False
    finalizers: tuple[str, ...] = ()

    def made(self) -> Json:
        """Return the pod as the API server shows it."""
        meta: Json = {
            "name": "train",
            "namespace": self.namespace,
            "uid": "u-train",
            "creationTimestamp": before(self.minutes),
        }
        if self.deleting:
            meta |= {"deletionTimestamp": before(1), "finalizers": list(self.finalizers)}
        limits = {name: str(number) for name, number in self.requests.items()}
        names = list(self.containers) or ["main"]
        spec: Json = {
            "schedulerName": self.scheduler,
            "initContainers": [{"name": name, "image": "image"} for name in self.inits],
            "containers": [{"name": name, "image": "image"} for name in names],
            **self.spec,
        }
        spec["containers"][0]["resources"] = {"limits": limits, "requests": limits}
        if self.node:
            spec["nodeName"] = self.node
        return {"metadata": meta, "spec": spec, "status": self.status()}

    def status(self) -> Json:
        """Return the pod's status."""
        status: Json = {"phase": self.phase, "conditions": []}
        if self.reason:
            status |= {"reason": self.reason, "message": self.message}
        kinds = (("initContainerStatuses", self.inits), ("containerStatuses", self.containers))
        for kind, states in kinds:
            if states:
                status[kind] = [state.status(name) for name, state in states.items()]
        if self.unscheduled:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            status["conditions"].append(condition | {"message": self.unscheduled})
        if self.disrupted:
            reason, message = self.disrupted
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
            status["conditions"].append(condition | {"message": message})
        return status


class Node(Row):
    """A node.

    Attributes:
        has: Its capacity.
        offers: What differs from it in `allocatable`.
        ready: Status of its condition Ready, and `because` the condition's message.
    """

    has: Mapping[str, int]
    offers: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    taints: tuple[Json, ...] = ()
    cordoned: bool = False
    ready: str = "True"
    because: str = ""

    def made(self, name: str) -> Json:
        """Return the node as the API server shows it."""
        capacity = {resource: str(number) for resource, number in self.has.items()}
        offered = {resource: str(number) for resource, number in self.offers.items()}
        condition = {"type": "Ready", "status": self.ready, "message": self.because}
        return {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **self.labels}},
            "spec": {"taints": list(self.taints), "unschedulable": self.cordoned},
            "status": {
                "capacity": capacity,
                "allocatable": capacity | offered,
                "conditions": [condition],
            },
        }


class Other(Row):
    """Another pod of the cluster.

    Attributes:
        holds: Limits of its container.
        waits: Waiting reason of its container. Empty: it runs and is ready.
    """

    node: str
    holds: Mapping[str, int] = {}
    image: str = "image"
    waits: str = ""

    def made(self, name: str) -> Json:
        """Return the pod as the API server shows it."""
        namespace, _, name = name.partition("/")
        limits = {resource: str(number) for resource, number in self.holds.items()}
        container = {"name": "main", "image": self.image, "resources": {"limits": limits}}
        state: Json = {"waiting": {"reason": self.waits}} if self.waits else {"running": {}}
        owner = {"kind": "DaemonSet", "name": "owner", "controller": True}
        return {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"u-{namespace}-{name}",
                "ownerReferences": [owner] if self.image != "image" else [],
            },
            "spec": {"nodeName": self.node, "containers": [container]},
            "status": {
                "phase": "Pending" if self.waits == "PodInitializing" else "Running",
                "conditions": [{"type": "Ready", "status": "False" if self.waits else "True"}],
                "containerStatuses": [{"name": "main", "ready": not self.waits, "state": state}],
            },
        }


class Event(Row):
    """An event of the pod."""

    reason: str
    by: str
    message: str
    part: str = ""

    def made(self, number: int) -> Json:
        """Return the event as the API server shows it."""
        return {
            "metadata": {"namespace": "team", "name": f"event-{number}"},
            "reason": self.reason,
            "reportingComponent": self.by,
            "message": self.message,
            "lastTimestamp": before(1 + number / 100),
            "involvedObject": {
                "kind": "Pod",
                "name": "train",
                "namespace": "team",
                "uid": "u-train",
                "fieldPath": self.part,
            },
        }


class Missing(Row):
    """A controller that can't create its pods.

    Attributes:
        event: Message of the event that says so.
        condition: Message of its condition ReplicaFailure.
        forged: Whether the event names another UID than the controller's.
    """

    kind: str
    name: str
    event: str = ""
    condition: str = ""
    forged: bool = False

    def made(self) -> Json:
        """Return the controller as the API server shows it."""
        failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}
        conditions = [failure | {"message": self.condition}] if self.condition else []
        return {
            "kind": self.kind,
            "metadata": {"name": self.name, "namespace": "team", "uid": "u-controller"},
            "spec": {"replicas": 1},
            "status": {"conditions": conditions},
        }

    def events(self) -> list[Json]:
        """Return the events about the controller."""
        if not self.event:
            return []
        involved = {
            "kind": self.kind,
            "name": self.name,
            "namespace": "team",
            "uid": "u-forged" if self.forged else "u-controller",
        }
        event: Json = {
            "metadata": {"namespace": "team"},
            "reason": "FailedCreate",
            "reportingComponent": f"{self.kind.lower()}-controller",
            "message": self.event,
            "lastTimestamp": before(1),
            "involvedObject": involved,
        }
        return [event]


class Claim(Row):
    """A ResourceClaim: whether it is reserved for the pod."""

    name: str
    reserved: bool

    def made(self) -> Json:
        """Return the claim as the API server shows it."""
        users = [{"resource": "pods", "name": "train", "uid": "u-train"}]
        status = {"reservedFor": users} if self.reserved else {}
        return {"metadata": {"name": self.name, "namespace": "team"}, "status": status}


class Condition(Row):
    """A condition of the pod's Workload, which Kueue writes."""

    type: str
    reason: str
    message: str

    def made(self) -> Json:
        """Return the Workload as the API server shows it."""
        owner = {"kind": "Pod", "name": "train", "uid": "u-train"}
        condition = {**self.model_dump(), "status": "False"}
        return {
            "metadata": {"name": "pod-train", "namespace": "team", "ownerReferences": [owner]},
            "status": {"conditions": [condition]},
        }


class Quota(Row):
    """A ResourceQuota of the namespace."""

    name: str
    hard: Mapping[str, str]
    used: Mapping[str, str]

    def made(self) -> Json:
        """Return the quota as the API server shows it."""
        status = {"hard": dict(self.hard), "used": dict(self.used)}
        return {"metadata": {"name": self.name}, "status": status}


class Situation(Row):
    """A situation of a public report.

    Attributes:
        name: Short description.
        source: Address of the report.
        truth: The true cause.
        real: Case of tests/proofs/real/test_causes.py in which a real part says such words.
        none: Whether the objects show no cause.
        says: Patterns of the text of the cause.
        cure: Patterns of the cure.
        never: Patterns of what neither may contain.
    """

    name: str
    source: str
    truth: str
    real: str = ""
    pod: Pod = Pod()
    nodes: Mapping[str, Node] = {}
    others: Mapping[str, Other] = {}
    events: tuple[Event, ...] = ()
    logs: Mapping[str, str] = {}
    missing: Missing | None = None
    claims: tuple[Claim, ...] = ()
    workloads: tuple[Condition, ...] = ()
    quotas: tuple[Quota, ...] = ()
    none: bool = False
    says: tuple[str, ...] = ()
    cure: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def objects(self) -> Json:
        """Return the cluster's objects, by the names that `Around` has for them."""
        events = [event.made(number) for number, event in enumerate(self.events)]
        events += self.missing.events() if self.missing else []
        return {
            "events": tuple(events),
            "nodes": tuple(node.made(name) for name, node in self.nodes.items()),
            "pods": tuple(other.made(name) for name, other in self.others.items()),
            "quotas": tuple(quota.made() for quota in self.quotas),
            "claims": tuple(claim.made() for claim in self.claims),
            "workloads": tuple(condition.made() for condition in self.workloads),
            "controllers": (self.missing.made(),) if self.missing else (),
            "logs": dict(self.logs),
            "now": NOW,
        }


@functools.cache
def rows() -> Mapping[str, Situation]:
    """Return the situations of all files, by their file and name."""
    found: dict[str, Situation] = {}
    for path in sorted(SITUATIONS.glob("*.yaml")):
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        for row in TypeAdapter(tuple[Situation, ...]).validate_python(loaded):
            key = f"{path.stem}: {row.name}"
            assert key not in found, f"two rows have the name {key}"
            found[key] = row
    return found
