"""Rule GPU069: a pod should request a share of a GPU by a resource, not by an annotation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from ..each import each_pod
from ..example import POD, Example, pod_without_gpus
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..twin import NoTwin
from ..unknown import mapping

SHARES: Final = ("gpu-fraction", "gpu-memory")
"""Annotations of KAI Scheduler, which came from Run:ai."""


def _by_resources(pod: Pod, _: Subject, __: Context) -> Iterator[Finding]:
    annotations = mapping(pod.metadata.get("annotations"))
    for key in SHARES:
        if key in annotations:
            yield Finding(
                path=pod.under(f"metadata.annotations[{key}]"),
                found="a share of a GPU that only KAI Scheduler gives and that no quota counts",
                wanted="GPUs in limits, such as nvidia.com/gpu.shared",
                cure="Request a resource that the nodes advertise, or use a cluster with KAI "
                "Scheduler.",
            )


RULE = Rule(
    id="GPU069",
    title="A share of a GPU is requested as a resource",
    severity=Severity.ADVISORY,
    check=each_pod(_by_resources, when=Subject.is_workload),
    why="Only KAI Scheduler reads the annotations gpu-fraction and gpu-memory. With another "
    "scheduler, the pod runs without a GPU, and no ResourceQuota and no configured maximum "
    "ever counts the share. Quotas of Kueue apply only to jobs in its queues, so they do "
    "not replace a ResourceQuota.",
    source="kai-scheduler KAI-Scheduler v0.14.5 pkg/common/constants (GpuFraction, GpuMemory)",
)

TWIN = NoTwin("Advice for authors: the annotation alone gives no GPU and does no harm.")

EXAMPLE = Example(
    passing=POD,
    failing=pod_without_gpus(
        (
            "metadata: {name: train}",
            'metadata:\n  name: train\n  annotations: {gpu-fraction: "0.5"}',
        ),
    ),
)
