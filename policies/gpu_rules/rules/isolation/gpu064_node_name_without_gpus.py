"""Rule GPU064: a pod that requests no GPUs must not name a GPU node in nodeName."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import Example, pod_without_gpus
from ..gpus import gpus_of
from ..pod_spec import Pod
from ..pools import gpu_pools
from ..rule import Finding, Need, Rule, Subject
from ..signs import Sign
from ..twin import pods
from ..unknown import text


def _check_foreign_node_name(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    node = text(pod.spec.get("nodeName"))
    pools = gpu_pools(context)
    of_a_pool = any(node in pool.node_names for pool in pools)
    may_be = bool(node) and not all(pool.node_names for pool in pools)
    if (of_a_pool or may_be) and gpus_of(subject, context).may_lack:
        which = "the GPU node" if of_a_pool else "a node that may be one with GPUs,"
        yield Finding(
            path=pod.under("spec.nodeName"),
            found=f"{which} {node[:80]} for a pod that requests no GPU",
            wanted="no nodeName",
            cure="Remove it: nodeName bypasses the taint that keeps other workloads away from "
            "GPUs.",
            is_opinion=not of_a_pool,
        )


RULE = Rule(
    id="GPU064",
    title="A pod without GPUs names no GPU node",
    severity=Severity.MANDATORY,
    check=each_pod(_check_foreign_node_name, when=Subject.is_workload),
    opinions="pods that name any node, if the names of a pool's nodes are not known",
    why="A pod with nodeName bypasses the scheduler and therefore taints with the effect "
    "NoSchedule: it runs on a GPU node without a request for GPUs, and reaches the GPUs by "
    "its image or its privileges. GPUs of another vendor don't count, because the kubelet "
    "ignores resources that its node doesn't have. The node names of pools that are declared by a "
    "selector are not known, so each node may be theirs. Name the nodes of all pools, and pods may "
    "name other nodes. `kubectl debug node/NAME` makes such a pod; GPU032 refuses it too, for it "
    "tolerates every taint. Run it in a namespace that is trusted or exempt.",
    source="kubernetes v1.34.4 pkg/kubelet/lifecycle/predicate.go (only NoExecute is looked at; "
    "removeMissingExtendedResources)",
    needs=frozenset({Need.POOLS}),
    whole=True,
)

_NODE = 'variables.spec.?nodeName.orValue("")'

TWIN = pods(
    cel.in_workloads(
        cel.unless_empty(
            f'{_NODE} != "" && !variables.hasGpus && '
            f'{cel.parameter("gpuNodes")}.exists(n, n == "*" || n == {_NODE})',
            f'"found the node " + {_NODE}',
        )
    ),
    signs=(Sign("has(object.spec.nodeName)"),),
)

EXAMPLE = Example.edited(
    pod_without_gpus(("name: train", "name: train, namespace: team-a")),
    ("spec:", "spec:\n  nodeName: gpu-1"),
    settings={"pools": [{"name": "a100", "gpusPerNode": 8, "nodeNames": ["gpu-1"]}]},
)
