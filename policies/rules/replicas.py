"""How many pods a workload has at once, also while it is updated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .rule import Subject
from .unknown import UNKNOWN, at, text

_PERCENT = re.compile(r"([0-9]{1,9})%")
_INT32_MAX = 2**31 - 1
_DEFAULT = "25%"
_SCALED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})


def number(value: object) -> int | None:
    """A whole number from 0 to what an int32 holds; `None` for everything else.

    Pulumi gives floats. The API server decodes no larger number of pods, retries or seconds.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value <= _INT32_MAX and value == int(value) else None


@dataclass(frozen=True, slots=True)
class Fenceposts:
    """How far a rolling update goes: pods more, and pods less, than `replicas`."""

    replicas: int
    surge: int
    unavailable: int


def _scaled(value: object, replicas: int, up: bool) -> int | None:
    """A number of pods, or a percentage of them; k8s.io/apimachinery intstr."""
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        part = int(match[1]) * replicas
        return -(-part // 100) if up else part // 100
    return number(value)


def fenceposts(subject: Subject) -> Fenceposts | None:
    """The rolling update of a Deployment; `None` for other kinds, Recreate and what is unknown.

    Source: kubernetes v1.34.4 pkg/apis/apps/v1/defaults.go SetDefaults_Deployment,
    pkg/controller/deployment/util/deployment_util.go ResolveFenceposts.
    """
    if subject.kind != "Deployment" or subject.pod is None:
        return None
    spec = subject.manifest.get("spec")
    given = at(spec, "replicas")
    replicas = 1 if given is None else number(given)
    kind = at(spec, "strategy", "type")
    rolling = at(spec, "strategy", "rollingUpdate")
    if replicas is None or kind not in (None, "", "RollingUpdate") or rolling is UNKNOWN:
        return None
    surge, unavailable = (
        _scaled(_DEFAULT if at(rolling, key) is None else at(rolling, key), replicas, up)
        for key, up in (("maxSurge", True), ("maxUnavailable", False))
    )
    if surge is None or unavailable is None:
        return None
    return Fenceposts(replicas, surge, unavailable if surge or unavailable else 1)


Target = tuple[str, str, str]
"""Namespace, kind and name of a workload."""


def scaled_to(subjects: Iterable[Subject]) -> dict[Target, int]:
    """How many pods the autoscalers of a stack may give a workload, by the workload."""
    targets: dict[Target, int] = {}
    for subject in subjects:
        if subject.kind == "HorizontalPodAutoscaler":
            spec = subject.manifest.get("spec")
            target = at(spec, "scaleTargetRef")
            key = (subject.namespace, text(at(target, "kind")), text(at(target, "name")))
            targets[key] = number(at(spec, "maxReplicas")) or 0
    return targets


def pods_at_most(subject: Subject, scaled: Mapping[Target, int]) -> int:
    """How many pods a workload runs at once: as many as its autoscaler may give it."""
    own = (subject.namespace, subject.kind, subject.name)
    return max(pods_at_once(subject), scaled.get(own, 0))


def pods_at_once(subject: Subject) -> int:
    """How many pods of a workload run at once at least; what is not known counts as 0.

    A DaemonSet has one per node and a CronJob none for most of the time: both count as 0.
    """
    spec = subject.manifest.get("spec")
    if subject.kind == "Pod":
        return 1
    if subject.kind in _SCALED:
        replicas = at(spec, "replicas")
        return 1 if replicas is None else number(replicas) or 0
    if subject.kind == "Job":
        parallel, completions = at(spec, "parallelism"), at(spec, "completions")
        count = 1 if parallel is None else number(parallel) or 0
        wanted = number(completions)
        return count if wanted is None else min(count, wanted)
    return 0
