"""How much pods, workloads and the whole stack may ask for at most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction

from policies.rules.context import Context, Mig, Pool, Severity
from policies.rules.pod_request import gpu_requests
from policies.rules.pools import candidate_pools, gpu_pools
from policies.rules.quantity import show
from policies.rules.replicas import fenceposts, pods_at_once
from policies.rules.resource_names import GPU, GPU_SHARED, VCUDA_CORE, VCUDA_MEMORY, is_device
from policies.rules.rule import Finding, Need, Rule, Subject

_CORES = 100  # gpu-manager divides each GPU into as many
_BLOCK_MIB = 256  # and its memory into blocks: tkestack gpu-manager pkg/types/types.go


def per_node(pool: Pool, resource: str, context: Context) -> int | None:
    """How much of a resource a node of a pool advertises, `None` where that is not known."""
    plugin = context.plugin
    if resource == VCUDA_CORE:
        return pool.gpus_per_node * _CORES
    if resource not in (GPU, GPU_SHARED) or (plugin and plugin.mig is not Mig.NONE):
        return None
    if plugin is None:
        return pool.gpus_per_node if resource == GPU else None
    renamed = GPU_SHARED if plugin.renamed else GPU
    return pool.gpus_per_node * plugin.replicas if resource == renamed else None


def _fits_a_node(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    pools = candidate_pools(subject.pod, context)
    for name, amount in gpu_requests(subject.pod, context).items():
        sizes = {pool.name: per_node(pool, name, context) for pool in pools}
        known = {pool: size for pool, size in sizes.items() if size is not None}
        if not known:
            continue
        largest = max(known, key=lambda pool: known[pool])
        if amount > known[largest]:
            yield Finding(
                path=subject.pod.under("spec"),
                found=f"{show(amount)} {name} in one pod",
                wanted=f"at most {known[largest]}, what a node of pool {largest} has",
                cure="Split the work over several pods: a pod runs on one node.",
            )


def _gpus(name: str, amount: Fraction, context: Context) -> Fraction:
    """An amount of a resource in GPUs or MIG devices; parts of a GPU count by their part."""
    if name == VCUDA_CORE:
        return amount / _CORES
    return amount if is_device(name, context) else Fraction(0)


def _capped(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    cap = context.max_gpus_per_container
    for container in subject.pod.containers:
        asked = Fraction(0)
        for name in container.resource_names:
            resource = container.effective(name)
            if resource and resource.quantity:
                asked += _gpus(name, resource.quantity.units, context)
        if cap is not None and asked > cap:
            yield Finding(
                path=f"{container.path}.resources.limits",
                found=f"{show(asked)} GPUs in one container",
                wanted=f"at most {cap}",
                cure="Ask for fewer, or have maxGpusPerContainer raised.",
                container=container.name,
            )
    requests = gpu_requests(subject.pod, context)
    total = sum(_gpus(name, amount, context) for name, amount in requests.items())
    if context.max_gpus_per_pod is not None and total > context.max_gpus_per_pod:
        yield Finding(
            path=subject.pod.under("spec"),
            found=f"{show(total)} GPUs in one pod",
            wanted=f"at most {context.max_gpus_per_pod}",
            cure="Ask for fewer, or have maxGpusPerPod raised.",
        )


def _room(pools: Sequence[Pool], resource: str, context: Context) -> int | None:
    """How much of a resource the pools have together, `None` where that is not known."""
    total = 0
    for pool in pools:
        size = per_node(pool, resource, context)
        if size is None or pool.nodes is None:
            return None
        total += size * pool.nodes
    return total if pools else None


def _surge_fits(subject: Subject, context: Context) -> Iterator[Finding]:
    posts = fenceposts(subject)
    if subject.pod is None or posts is None or posts.unavailable > 0:
        return
    pools = candidate_pools(subject.pod, context)
    for name, amount in gpu_requests(subject.pod, context).items():
        room = _room(pools, name, context)
        needed = amount * (posts.replicas + posts.surge)
        if room is not None and amount * posts.replicas <= room < needed:
            yield Finding(
                path="spec.strategy",
                found=f"an update that needs {show(needed)} {name} at once",
                wanted=f"at most {room}, what the pools have",
                cure="Set type Recreate, or rollingUpdate.maxSurge 0: the update would hang.",
            )


def _stack_fits(subjects: Sequence[Subject], context: Context) -> Iterator[tuple[Subject, Finding]]:
    total: dict[str, Fraction] = defaultdict(Fraction)
    for subject in subjects:
        if subject.pod is None:
            continue
        count = pods_at_once(subject)
        for name, amount in gpu_requests(subject.pod, context).items():
            room = _room(gpu_pools(context), name, context)
            before = total[name]
            total[name] += amount * count
            if room is not None and before <= room < total[name]:
                yield (
                    subject,
                    Finding(
                        path=subject.pod.under("spec"),
                        found=f"{show(total[name])} {name} in the stack, this one included",
                        wanted=f"at most {room}, what its pools have",
                        cure="Some of its pods will stay Pending: lower replicas or add nodes.",
                    ),
                )


def _memory_fits(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.pod is None:
        return
    sizes = [pool.gpu_memory_mib for pool in candidate_pools(subject.pod, context)]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return
    blocks = max(known) // _BLOCK_MIB
    for container in subject.pod.containers:
        core, memory = container.effective(VCUDA_CORE), container.effective(VCUDA_MEMORY)
        if not (core and core.quantity and memory and memory.quantity):
            continue
        if 0 < core.quantity.units < _CORES and memory.quantity.units > blocks:
            yield Finding(
                path=memory.path,
                found=f"{memory.quantity} blocks of {_BLOCK_MIB} MiB",
                wanted=f"at most {blocks}, the memory of one GPU",
                cure="A part of a GPU has the memory of that GPU at most.",
                container=container.name,
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
    Rule(
        id="GPU028",
        title="A container and a pod stay under the cap",
        severity=Severity.MANDATORY,
        check=_capped,
        why="Where maxGpusPerContainer or maxGpusPerPod is set, nobody takes more at once. Parts "
        "of a GPU count by their part, MIG devices as one each.",
        source="the pack's settings; the pod's request as in GPU007",
        needs=frozenset({Need.CAPS}),
    ),
    Rule(
        id="GPU039",
        title="The update of a GPU Deployment fits into its pools",
        severity=Severity.MANDATORY,
        check=_surge_fits,
        why="With maxUnavailable at 0 (what 25 % comes to below four replicas) new pods start "
        "before old ones end. Where the pools have no room for both, the update never ends.",
        source="kubernetes v1.34.4 pkg/controller/deployment/rolling.go, util/deployment_util.go "
        "ResolveFenceposts",
        needs=frozenset({Need.POOLS}),
        whole=True,
    ),
    Rule(
        id="GPU040",
        title="The workloads of a stack fit into its pools",
        severity=Severity.ADVISORY,
        across=_stack_fits,
        why="What all workloads ask for together, replicas included, is more than the pools have, "
        "so some pods stay Pending until others end. CronJobs and DaemonSets are left out.",
        source="k8s.io/component-helpers v0.34.4 resource/helpers.go PodRequests",
        needs=frozenset({Need.POOLS}),
    ),
    Rule(
        id="GPU046",
        title="vcuda-memory fits into one GPU",
        severity=Severity.MANDATORY,
        check=_memory_fits,
        why="gpu-manager cuts a device into blocks of 256 MiB, rounded down, and takes a part of a "
        "GPU from one device. More than that passes the API server and the scheduler's sums and "
        "ends with UnexpectedAdmissionError.",
        source="tkestack gpu-manager pkg/services/allocator/nvidia/allocator.go allocateOne, "
        "pkg/types/types.go MemoryBlockSize",
        needs=frozenset({Need.POOLS}),
    ),
)
