"""Rule GPU031: a node with GPUs must have the taint and labels of a GPU pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...context import Context, Severity
from ...kube.gpu_resources import GPU
from ..example import Example
from ..pools import gpu_pools, hard_taints
from ..rule import Declared, Finding, Rule, Subject
from ..twin import NODES_JOIN
from ..unknown import at, holds_unknown, mapping
from .gpu_nodes import gpus_of, is_node, taint_keys, taints_known


def _kept_free(subject: Subject, context: Context) -> Iterator[Finding]:
    name = gpus_of(subject, context) if is_node(subject) else ""
    if not name or not taints_known(subject):
        return
    if not taint_keys(subject):
        yield Finding(
            path="spec.taints",
            found=f"no taint on a node with {name}",
            wanted=_wanted_taints(context),
            cure="Add the taint: otherwise any pod can use the node's cpu and memory.",
        )
    labels = at(subject.manifest, "metadata", "labels")
    wanted = [pool.labels for pool in gpu_pools(context) if pool.labels]
    if wanted and not holds_unknown(labels) and not any(_has(labels, own) for own in wanted):
        yield Finding(
            path="metadata.labels",
            found="no labels of a GPU pool",
            wanted=" or ".join(map(_labels_text, wanted)),
            cure="Add the labels of its pool: otherwise pods that select GPU nodes never run here.",
        )


def _labels_text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())


def _wanted_taints(context: Context) -> str:
    """Return the taints of all GPU pools as text, or the default taint if the pools have none."""
    taints = {str(taint): None for pool in gpu_pools(context) for taint in hard_taints(pool)}
    return " or ".join(taints) or f"{GPU}=present:NoSchedule"


def _has(labels: object, wanted: Mapping[str, str]) -> bool:
    present = mapping(labels)
    return all(present.get(key) == value for key, value in wanted.items())


RULE = Rule(
    id="GPU031",
    title="A node with GPUs has the taint and the labels of its pool",
    severity=Severity.ADVISORY,
    mandatory_if=Declared.CLUSTER,
    check=_kept_free,
    why="The taint keeps other workloads away, and the labels attract GPU workloads. A node "
    "that has only one of the two is filled with other pods, or is never used.",
    source="k8s.io/api v0.34.4 core/v1/toleration.go; NVIDIA k8s-device-plugin README",
    whole=True,
)

TWIN = NODES_JOIN

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: Node
metadata:
  name: gpu-1
  labels: {nvidia.com/gpu.present: "true"}
spec:
  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
""",
    ("taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]", "taints: []"),
)
