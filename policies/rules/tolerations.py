"""Pods that ask for GPUs and the taints of the nodes that have them."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.context import Context, Severity
from policies.rules.pod_request import gpu_requests
from policies.rules.pools import candidate_pools, untolerated
from policies.rules.rule import Finding, Need, Rule, Subject


def _tolerated(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    requests = gpu_requests(subject.pod, context)
    pools = candidate_pools(subject.pod, context)
    if not requests or not pools:
        return
    missing = {pool.name: untolerated(subject.pod, pool, requests, context) for pool in pools}
    if all(missing.values()):
        name, taints = next(iter(missing.items()))
        first = taints[0]
        yield Finding(
            path=subject.pod.under("spec.tolerations"),
            found="no toleration for " + ", ".join(map(str, taints)) + f" of pool {name}",
            wanted="a toleration for the taints of a pool with GPUs",
            cure=f"Add {{key: {first.key}, operator: Exists, effect: {first.effect}}}.",
        )


RULES = (
    Rule(
        id="GPU004",
        title="A pod that asks for GPUs tolerates the taint of the GPU nodes",
        severity=Severity.MANDATORY,
        check=_tolerated,
        why="GPU nodes are tainted so that other work stays away. Without a toleration the pod "
        "stays Pending. The admission plugin ExtendedResourceToleration would add one, but it is "
        "off by default and helps only where the taint's key is the resource's name.",
        source="k8s.io/api v0.34.4 core/v1/toleration.go; kubernetes v1.34.4 "
        "plugin/pkg/admission/extendedresourcetoleration",
        needs=frozenset({Need.POOLS}),
        whole=True,
    ),
)
