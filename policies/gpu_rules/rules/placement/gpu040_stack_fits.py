"""Rule GPU040: all workloads together should not request more GPUs than the pools have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from ...context import Context, Severity
from ...kube.quantity import show
from ..each import pods_of_stack
from ..example import Example, deployment, manifest_list
from ..pod_request import gpu_requests
from ..pools import gpu_pools
from ..rule import Finding, Need, Rule, Subject
from ..twin import SEVERAL_OBJECTS
from .room import room_of


def _stack_fits(subjects: Sequence[Subject], context: Context) -> Iterator[tuple[Subject, Finding]]:
    total: dict[tuple[str, str], Fraction] = {}
    for subject, pod, count in pods_of_stack(subjects):
        for name, amount in gpu_requests(subject, context).items():
            room = room_of(gpu_pools(context), name, context)
            # Objects outside of charts and kustomizations are in each stack, and come first.
            plain = total.get(("", name), Fraction(0))
            before = total.get((subject.stack, name), plain)
            total[subject.stack, name] = after = before + amount * count
            if room is not None and before <= room < after:
                finding = Finding(
                    path=pod.under("spec"),
                    found=f"{show(after)} {name} in the stack, including this workload",
                    wanted=f"at most {room}, the total of its pools",
                    cure="Lower replicas or add nodes: otherwise some pods stay Pending.",
                )
                yield subject, finding


RULE = Rule(
    id="GPU040",
    title="The workloads of a stack fit into its pools",
    severity=Severity.ADVISORY,
    across=_stack_fits,
    why="All workloads together request more GPUs than the pools have, with all replicas and "
    "with what a HorizontalPodAutoscaler may add. Some pods stay Pending until others end. "
    "CronJobs and DaemonSets are not counted.",
    source="k8s.io/component-helpers v0.34.4 resource/helpers.go PodRequests",
    needs=frozenset({Need.POOLS}),
)

TWIN = SEVERAL_OBJECTS

EXAMPLE = Example.edited(
    manifest_list(
        deployment("replicas: 4", "strategy: {type: Recreate}"),
        deployment("replicas: 4", "strategy: {type: Recreate}", name="batch"),
    ),
    (
        "{name: batch}\n    spec:\n      replicas: 4",
        "{name: batch}\n    spec:\n      replicas: 5",
    ),
    settings={
        "pools": [
            {"name": "a100", "gpusPerNode": 8, "nodes": 1, "taints": ["nvidia.com/gpu:NoSchedule"]}
        ]
    },
)
