"""The Kubernetes Job that validates a node, and its observed state. Pure functions.

A Job ends by its deadline and is deleted some time later, also if the run that created it was
killed (Kubernetes documentation, "Jobs" and "Automatic Cleanup for Finished Jobs").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from gpu_cluster.desired.validation import POOL, PoolValidation
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.nodes.drain import owner_of
from gpu_cluster.validation.pod import NODE, SPARE_SECONDS, pod_template
from gpu_rules.kube.names import LABEL_LIMIT

Json = dict[str, Any]

JOBS = "/apis/batch"
"""API group of Jobs, as the base of a request's path."""
LONGEST = LABEL_LIMIT
"""Maximum number of characters of a Job's name, which becomes the value of a label of its pod.

Source: kubernetes v1.34.4, pkg/registry/batch/job/strategy.go (generateSelector).
"""
KEPT_SECONDS = 3600
"""Seconds after its end in which a Job that failed can be examined, until it is deleted."""


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """Observed state of a node's validation Job.

    Attributes:
        job: The Job. None: the node has none.
        pods: Pods that the Job owns.
        refusal: Why the Job's controller can't create the pod. Empty: nothing is known.
    """

    job: Json | None = None
    pods: tuple[Json, ...] = ()
    refusal: str = ""

    @property
    def living(self) -> tuple[Json, ...]:
        """Return the Job's pods that were not preempted, evicted or deleted."""
        return tuple(pod for pod in self.pods if not _is_disrupted(pod))


def _is_disrupted(pod: Json) -> bool:
    """Return True if a pod terminates because it was preempted, evicted or deleted."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return bool(pod["metadata"].get("deletionTimestamp")) or any(
        condition["type"] == "DisruptionTarget" and condition["status"] == "True"
        for condition in conditions
    )


def job_name(node: str) -> str:
    """Return the name of the Job that validates a node."""
    name = f"validate-{node}"
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:16]
    return f"{name[: LONGEST - len(digest) - 1].rstrip('.-')}-{digest}"


def job(pool: PoolValidation, node: Json, ask: dict[str, int]) -> Json:
    """Return the Job that runs a node's validation pod once.

    A pod that is preempted or evicted does not count as a failure of the Job: Kubernetes creates
    the pod again. The Job is deleted with its Node.

    Args:
        ask: Number of devices to request, by resource.
    """
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    disrupted = {"type": "DisruptionTarget", "status": "True"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(name),
            "labels": {POOL: pool.pool, **LABELS},
            "annotations": {NODE: name},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": pool.timeout_seconds + SPARE_SECONDS,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [disrupted]}]},
            "template": pod_template(pool, name, ask),
        },
    }


def observed(
    jobs: list[Json], pods: list[Json], refusals: dict[str, str]
) -> dict[str, ObservedJob]:
    """Return the observed state of each validation Job, by the Job's name.

    A pod belongs to a Job by the UID of its owner, whatever its name is.

    Args:
        jobs: Validation Jobs.
        pods: Validation pods.
        refusals: Why pods could not be created, by the Job's UID.
    """
    owned: dict[str, list[Json]] = {}
    for pod in pods:
        owned.setdefault((owner_of(pod) or {}).get("uid", ""), []).append(pod)
    return {
        validation_job["metadata"]["name"]: ObservedJob(
            job=validation_job,
            pods=tuple(owned.get(validation_job["metadata"]["uid"], ())),
            refusal=refusals.get(validation_job["metadata"]["uid"], ""),
        )
        for validation_job in jobs
    }
