"""Rule GPU046: the vcuda-memory for a part of a GPU must fit into one GPU."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.gpu_resources import VCUDA_CORE, VCUDA_MEMORY
from .. import cel
from ..each import each_pod, named
from ..example import POD, Example, edited
from ..placement.room import CORES
from ..pod_spec import Container, Pod
from ..pools import candidate_pools
from ..rule import Finding, Need, Rule, Subject
from ..signs import NAMES
from ..twin import pods
from .asked import (
    BLOCKS_ASKED,
    CORES_ASKED,
)

# Size of the blocks into which gpu-manager divides a GPU's memory: tkestack gpu-manager
# pkg/types/types.go.
_BLOCK_MIB = 256
# No GPU has more memory than 1 TiB (4,096 blocks). A larger amount was written in bytes, such as
# 5Gi, instead of blocks.
_MOST_BLOCKS = 4096


def _memory_fits(pod: Pod, _: Subject, context: Context) -> Iterator[Finding]:
    sizes = [pool.gpu_memory_mib for pool in candidate_pools(pod, context)]
    known_sizes = [size for size in sizes if size is not None]
    complete = known_sizes and len(known_sizes) == len(sizes)
    blocks = max(known_sizes) // _BLOCK_MIB if complete else _MOST_BLOCKS
    for container in pod.containers:
        yield from named(container, _check_memory(blocks, container))


def _check_memory(blocks: int, container: Container) -> Iterator[Finding]:
    core, memory = container.effective(VCUDA_CORE), container.effective(VCUDA_MEMORY)
    if not (core and core.quantity and memory and memory.quantity):
        return
    if 0 < core.quantity.units < CORES and memory.quantity.units > blocks:
        yield Finding(
            path=memory.path,
            found=f"{memory.quantity} blocks of {_BLOCK_MIB} MiB",
            wanted=f"at most {blocks}, the memory of one GPU",
            cure="Request less: a part of a GPU has at most the memory of one GPU.",
        )


RULE = Rule(
    id="GPU046",
    title="vcuda-memory fits into one GPU",
    severity=Severity.MANDATORY,
    check=each_pod(_memory_fits),
    why="gpu-manager divides a GPU into blocks of 256 MiB, rounded down, and gives a part of a GPU "
    "from one device. The API server and the scheduler accept more, and then the kubelet ends the "
    "pod with UnexpectedAdmissionError. If the memory of the pools' GPUs is not known "
    f"(gpuMemoryMiB), the limit is {_MOST_BLOCKS} blocks (1 TiB), which still detects amounts in "
    "bytes.",
    source="tkestack gpu-manager pkg/services/allocator/nvidia/allocator.go allocateOne, "
    "pkg/types/types.go MemoryBlockSize",
    needs=frozenset({Need.GPU_MANAGER}),
)

_POOL_BLOCKS = 'variables.facts[p + ".blocks"]'

TWIN = pods(
    cel.each_container(
        f"{CORES_ASKED} > 0 && {CORES_ASKED} < 100 && (size(variables.pools) == 0 || "
        'variables.pools.exists(p, !((p + ".blocks") in variables.facts)) ? '
        f"{BLOCKS_ASKED} > {_MOST_BLOCKS} : "
        f"variables.pools.all(p, {BLOCKS_ASKED} > int({_POOL_BLOCKS})))",
        f'string({BLOCKS_ASKED}) + " blocks of memory"',
    ),
    signs=(NAMES,),
)

EXAMPLE = Example.edited(
    edited(
        POD,
        (
            "32Gi, nvidia.com/gpu: 1",
            "32Gi, tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 160",
        ),
    ),
    ("tencent.com/vcuda-memory: 160", "tencent.com/vcuda-memory: 161"),
    settings={
        "platform": "gpu-manager",
        "pools": [{"name": "a100", "gpusPerNode": 8, "gpuMemoryMiB": 40960}],
    },
)
