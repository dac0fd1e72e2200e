"""The number of pods that a workload runs at the same time, also during an update."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .rule import Subject
from .unknown import UNKNOWN, at, number, text

_PERCENT = re.compile(r"([0-9]{1,9})%")
_DEFAULT = "25%"
_KEDA = 100
"""Default maximum number of pods of a ScaledObject (KEDA)."""
_ANY = "*"
"""Name for the stack whose autoscaler allows most pods."""
_SCALED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"})


@dataclass(frozen=True, slots=True)
class Fenceposts:
    """Numbers of pods that a rolling update may run above (`surge`) and below `replicas`."""

    replicas: int
    surge: int
    unavailable: int


def _scale_number(value: object, replicas: int, up: bool) -> int | None:
    """Return a number of pods from a number or a percentage (k8s.io/apimachinery intstr).

    Args:
        value: Number or percentage such as `25%`.
        replicas: Number of pods that a percentage refers to.
        up: Whether a percentage is rounded up.
    """
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
        share = int(match[1]) * replicas
        return -(-share // 100) if up else share // 100
    return number(value)


def fenceposts(subject: Subject) -> Fenceposts | None:
    """Return the rolling-update limits of a Deployment, or None if they don't apply or are unknown.

    Source: kubernetes v1.34.4 pkg/apis/apps/v1/defaults.go SetDefaults_Deployment,
    pkg/controller/deployment/util/deployment_util.go ResolveFenceposts.
    """
    if subject.kind != "Deployment" or subject.pod is None:
        return None
    spec = subject.manifest.get("spec")
    declared = at(spec, "replicas")
    replicas = 1 if declared is None else number(declared)
    kind = at(spec, "strategy", "type")
    rolling = at(spec, "strategy", "rollingUpdate")
    if replicas is None or kind not in (None, "", "RollingUpdate") or rolling is UNKNOWN:
        return None
    surge, unavailable = (
        _scale_number(_DEFAULT if at(rolling, key) is None else at(rolling, key), replicas, up)
        for key, up in (("maxSurge", True), ("maxUnavailable", False))
    )
    if surge is None or unavailable is None:
        return None
    return Fenceposts(replicas, surge, unavailable if surge or unavailable else 1)


Target = tuple[str, str, str]
"""Namespace, kind and name of a workload."""


def scaled_to(subjects: Iterable[Subject]) -> dict[Target, dict[str, int]]:
    """Return the maximum number of pods that autoscalers allow, by workload and stack.

    A ScaledObject of KEDA scales a Deployment to 100 pods unless it says otherwise (kedacore/keda
    apis/keda/v1alpha1/scaledobject_types.go).
    """
    targets: dict[Target, dict[str, int]] = {}
    for subject in subjects:
        if subject.kind == "HorizontalPodAutoscaler":
            spec = subject.manifest.get("spec")
            target = at(spec, "scaleTargetRef")
            key = (subject.namespace, text(at(target, "kind")), text(at(target, "name")))
            most = number(at(spec, "maxReplicas")) or 0
            _add_scaler(targets.setdefault(key, {}), subject.stack, most)
        elif subject.kind == "ScaledObject" and subject.group_version.startswith("keda.sh/"):
            spec = subject.manifest.get("spec")
            target, count = at(spec, "scaleTargetRef"), at(spec, "maxReplicaCount")
            kind = text(at(target, "kind")) or "Deployment"
            key = (subject.namespace, kind, text(at(target, "name")))
            most = _KEDA if count is None else number(count) or 0
            _add_scaler(targets.setdefault(key, {}), subject.stack, most)
    return targets


def _add_scaler(by_stack: dict[str, int], stack: str, most: int) -> None:
    by_stack[stack] = most
    by_stack[_ANY] = max(by_stack.get(_ANY, 0), most)


def pods_at_most(subject: Subject, scaled: Mapping[Target, Mapping[str, int]]) -> int:
    """Return the maximum number of pods of a workload, including what its autoscaler may add."""
    target = (subject.namespace, subject.kind, subject.name)
    by_stack = scaled.get(target, {})
    stacks = ("", subject.stack) if subject.stack else (_ANY,)
    return max(pods_at_once(subject), *(by_stack.get(stack, 0) for stack in stacks))


def pods_at_once(subject: Subject) -> int:
    """Return the number of pods that a workload runs at the same time, at least.

    Unknown numbers count as 0. So do DaemonSets, which have one pod per node, and CronJobs, which
    have no pod most of the time.
    """
    spec = subject.manifest.get("spec")
    if subject.pod and subject.pod.copies is not None:
        return subject.pod.copies
    if subject.kind == "Pod":
        return 1
    if subject.kind in _SCALED:
        replicas = at(spec, "replicas")
        return 1 if replicas is None else number(replicas) or 0
    if subject.kind == "Job":
        parallel, completions = at(spec, "parallelism"), at(spec, "completions")
        count = 1 if parallel is None else number(parallel) or 0
        completions_count = number(completions)
        return count if completions_count is None else min(count, completions_count)
    return 0
