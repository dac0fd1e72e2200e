"""How much a pod may ask for at most."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.context import Context, Pool, Severity
from policies.rules.pod_request import gpu_requests
from policies.rules.pools import candidate_pools
from policies.rules.resource_names import GPU, VCUDA_CORE
from policies.rules.rule import Finding, Need, Rule, Subject

_UNITS_PER_GPU = {GPU: 1, VCUDA_CORE: 100}  # gpu-manager divides each GPU into 100 cores


def _capacity(pool: Pool, resource: str) -> int:
    return pool.gpus_per_node * _UNITS_PER_GPU[resource]


def _fits_a_node(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    pools = candidate_pools(subject.pod, context)
    for name, amount in gpu_requests(subject.pod, context).items():
        if name not in _UNITS_PER_GPU or not pools:
            continue
        largest = max(pools, key=lambda pool: _capacity(pool, name))
        capacity = _capacity(largest, name)
        if amount > capacity:
            yield Finding(
                path=subject.pod.under("spec"),
                found=f"{float(amount):g} {name} in one pod",
                wanted=f"at most {capacity}, what a node of pool {largest.name} has",
                cure="Split the work over several pods: a pod runs on one node.",
            )


RULES = (
    Rule(
        id="GPU007",
        title="A pod asks for no more GPUs than a node has",
        severity=Severity.MANDATORY,
        check=_fits_a_node,
        why="A pod runs on one node, so one that asks for more GPUs than the largest pool has per "
        "node stays Pending for ever. Counted as the scheduler does: containers and sidecars "
        "together, or the largest init container with the sidecars before it, plus overhead.",
        source="k8s.io/component-helpers v0.34.4 resource/helpers.go PodRequests",
        needs=frozenset({Need.POOLS}),
    ),
)
