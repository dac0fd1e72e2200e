"""Rule GPU085: a node pool of Karpenter for GPUs should have a taint and a limit."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..example import Example
from ..resource_names import sounds_like_gpu
from ..rule import Finding, Rule, Subject
from ..twin import OTHER_KINDS
from ..unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text

_WITHOUT = ("NotIn", "DoesNotExist")


def _is_fenced(subject: Subject, _: Context) -> Iterator[Finding]:
    group = subject.group_version.partition("/")[0]
    spec = at(subject.manifest, "spec")
    node = at(spec, "template", "spec")
    if (group, subject.kind) != ("karpenter.sh", "NodePool") or not _is_for_gpus(node):
        return
    taints = at(node, "taints")
    if not sequence(taints) and not holds_unknown(taints):
        yield Finding(
            path="spec.template.spec.taints",
            found="no taint on nodes with GPUs",
            wanted="a taint such as nvidia.com/gpu:NoSchedule",
            cure="Add the taint: otherwise pods without GPUs start and keep the most expensive "
            "nodes.",
        )
    limits = at(spec, "limits")
    if limits is not UNKNOWN and not mapping(limits):
        yield Finding(
            path="spec.limits",
            found="no limit",
            wanted="a limit such as nvidia.com/gpu: 16",
            cure="Add the limit: without it, Karpenter starts nodes with GPUs as long as pods "
            "wait.",
        )


def _is_for_gpus(node: object) -> bool:
    """Return whether a node template requires instances with GPUs."""
    return any(
        sounds_like_gpu(text(at(one, "key"))) and at(one, "operator") not in _WITHOUT
        for one in sequence(at(node, "requirements"))
    )


RULE = Rule(
    id="GPU085",
    title="A node pool for GPUs has a taint and a limit",
    severity=Severity.ADVISORY,
    check=_is_fenced,
    why="Karpenter adds nodes for pods that wait, up to the limits of the NodePool. Without a "
    "taint, pods without GPUs may run on nodes with GPUs, and keep them from being removed.",
    source="kubernetes-sigs/karpenter pkg/apis/v1/nodepool.go (limits, template.spec.taints); "
    "labels karpenter.k8s.aws/instance-gpu-*",
    whole=True,
)

TWIN = OTHER_KINDS

EXAMPLE = Example.edited(
    """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpus}
spec:
  limits: {nvidia.com/gpu: 16}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.k8s.aws/instance-gpu-count, operator: Exists}
      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
""",
    ("      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]\n", ""),
)
