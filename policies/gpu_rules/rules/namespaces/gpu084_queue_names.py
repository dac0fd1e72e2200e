"""Rule GPU084: the queues of job schedulers should name GPU resources as they are advertised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...context import Context, Severity
from ..example import Example
from ..pod_spec import Resource, resource_list
from ..resource_names import is_gpu, meant
from ..rule import Finding, Rule, Subject
from ..twin import OTHER_KINDS
from ..unknown import at, sequence, text

_VOLCANO: Final = ("capability", "deserved", "guarantee.resource")
"""Amounts of a Volcano Queue: volcano-sh/apis pkg/apis/scheduling/v1beta1 QueueSpec."""


def _amounts(subject: Subject) -> Iterator[Resource]:
    """Yield the amounts of resources that a queue offers, each with its path."""
    group, spec = subject.group_version.partition("/")[0], at(subject.manifest, "spec")
    if (group, subject.kind) == ("scheduling.volcano.sh", "Queue"):
        for field in _VOLCANO:
            yield from resource_list(at(spec, *field.split(".")), f"spec.{field}").values()
    if group != "kueue.x-k8s.io" or subject.kind not in ("ClusterQueue", "Cohort"):
        return
    # kubernetes-sigs/kueue apis/kueue/v1beta1 clusterqueue_types.go ResourceGroup.
    for i, one in enumerate(sequence(at(spec, "resourceGroups"))):
        for j, flavor in enumerate(sequence(at(one, "flavors"))):
            for k, quota in enumerate(sequence(at(flavor, "resources"))):
                path = f"spec.resourceGroups[{i}].flavors[{j}].resources[{k}]"
                name = text(at(quota, "name"))
                amount = {name: at(quota, "nominalQuota")}
                yield from resource_list(amount, path).values()


def _named_right(subject: Subject, context: Context) -> Iterator[Finding]:
    for amount in _amounts(subject):
        if right := meant(amount.name, context):
            yield Finding(
                path=amount.path,
                found=amount.name[:80],
                wanted=right,
                cure="Correct the name: no node advertises this one, so jobs that request GPUs "
                "never leave the queue, or are not limited by it.",
            )
        elif is_gpu(amount.name, context) and amount.quantity and not amount.quantity.whole:
            yield Finding(
                path=amount.path,
                found=str(amount.quantity),
                wanted="a whole number",
                cure="Round it: pods request whole devices.",
            )


RULE = Rule(
    id="GPU084",
    title="A queue names GPU resources as they are advertised",
    severity=Severity.ADVISORY,
    check=_named_right,
    why="A queue of Kueue or Volcano admits jobs by the names of its quotas. A name that no "
    "device plugin advertises, such as nvidia.com/gpus, holds nothing.",
    source="kubernetes-sigs/kueue apis/kueue/v1beta1/clusterqueue_types.go; volcano-sh/apis "
    "pkg/apis/scheduling/v1beta1",
)

TWIN = OTHER_KINDS

EXAMPLE = Example.edited(
    """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-a}
spec:
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: a100
          resources: [{name: nvidia.com/gpu, nominalQuota: 8}]
""",
    ("{name: nvidia.com/gpu,", "{name: nvidia.com/gpus,"),
)
