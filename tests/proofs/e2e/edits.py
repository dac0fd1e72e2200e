"""Edits of stack files whose claims are measured: sections added, changed and removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.proofs.e2e.claims import Edit, Workload
from tests.proofs.e2e.project import Json

Change = Callable[[Json], None]
IDLE: tuple[Workload, ...] = ()
BUSY = (
    Workload(name="train", node="gpu-1", gpus=8),
    Workload(name="web", node="gpu-2"),
    Workload(name="far", node="gpu-4", gpus=4),
)
SHARED = {"config": {"sharing": {"timeSlicing": {"resources": [
    {"name": "nvidia.com/gpu", "replicas": 4}
]}}}}  # fmt: skip


def section(**changes: Any) -> Change:
    """Return an edit that sets sections."""
    return lambda document: document.update(changes)


def pool(**changes: Any) -> Change:
    """Return an edit of the first pool."""
    return lambda document: document["pools"][0].update(changes)


def no(*names: str) -> Change:
    """Return an edit that takes sections out."""

    def change(document: Json) -> None:
        for name in names:
            del document[name]

    return change


def no_host(*names: str) -> Change:
    """Return an edit that takes hosts out."""

    def change(document: Json) -> None:
        document["hosts"] = [each for each in document["hosts"] if each["name"] not in names]

    return change


def both(*changes: Change) -> Change:
    """Return several edits as one."""

    def change(document: Json) -> None:
        for each in changes:
            each(document)

    return change


def renamed_host(document: Json) -> None:
    document["hosts"][1].update(name="rack-2", node="gpu-2")


def second_pool(document: Json) -> None:
    document["pools"] = [
        {"name": "a100", "nodes": ["gpu-[3-4]"], "gpusPerNode": 8},
        {"name": "old", "nodes": ["gpu-[1-2]"], "gpusPerNode": 8},
    ]


def merged_pools(document: Json) -> None:
    document["pools"] = [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}]


WITHOUT_2 = ["gpu-1", "gpu-[3-4]"]
EDITS: Mapping[str, Edit] = MappingProxyType(
    {
        "nothing": Edit(kind="nothing", after=lambda _: None, workloads=BUSY),
        "hosts taken out": Edit(kind="hosts", after=no("hosts"), workloads=BUSY),
        "one host taken out": Edit(kind="hosts", after=no_host("gpu-2")),
        "a host and its idle node taken out": Edit(
            kind="hosts", after=both(no_host("gpu-2"), pool(nodes=WITHOUT_2))
        ),
        "a host and its busy node taken out": Edit(
            kind="hosts", after=both(no_host("gpu-2"), pool(nodes=WITHOUT_2)), workloads=BUSY
        ),
        "a host renamed": Edit(kind="hosts", after=renamed_host),
        "hosts and their pool taken out, nodes in another pool": Edit(
            kind="hosts", before=second_pool, after=both(merged_pools, no("hosts"))
        ),
        "a pool taken out, its nodes in another": Edit(
            kind="pools", before=second_pool, after=merged_pools, workloads=BUSY
        ),
        "a busy node taken out": Edit(
            kind="pools", after=pool(nodes=["gpu-[1-3]"]), workloads=BUSY
        ),
        "fewer GPUs per node": Edit(kind="pools", after=pool(gpusPerNode=4)),
        "a taint that evicts": Edit(
            kind="pools",
            after=pool(taints=[{"key": "example.com/repair", "effect": "NoExecute"}]),
            workloads=BUSY,
        ),
        "GPUs left out": Edit(
            kind="pools", after=pool(unhealthyDevices={"gpu-3": {"index": [2]}}), workloads=BUSY
        ),
        "GPUs left out no more": Edit(
            kind="pools",
            before=pool(unhealthyDevices={"gpu-3": {"index": [2]}}),
            after=lambda document: document["pools"][0].pop("unhealthyDevices"),
        ),
        "shared GPUs": Edit(kind="platform", after=section(devicePlugin=SHARED)),
        "shared GPUs no more": Edit(
            kind="platform", before=section(devicePlugin=SHARED), after=no("devicePlugin")
        ),
        "another platform": Edit(
            kind="platform", after=section(platform="gpu-operator"), workloads=BUSY
        ),
        "another platform, with its toolkit": Edit(
            kind="runtime",
            after=section(platform="gpu-operator", gpuOperator={"toolkit": True}),
            workloads=(Workload(name="web", node="gpu-2"),),
        ),
        "the platform back": Edit(
            kind="platform",
            before=section(platform="gpu-operator"),
            after=section(platform="device-plugin"),
        ),
        "the runtime's setting": Edit(
            kind="runtime", after=section(runtime={"devicesByEnvironment": True}), workloads=BUSY
        ),
        "runtime taken out": Edit(
            kind="runtime",
            before=section(runtime={"devicesByEnvironment": True}),
            after=no("runtime"),
            workloads=BUSY,
        ),
        "system taken out": Edit(
            kind="system",
            before=section(system={"sysctl": {"vm.max_map_count": "262145"}, "swapOff": False}),
            after=no("system"),
            workloads=BUSY,
        ),
        "maintenance": Edit(kind="maintenance", after=section(maintenance=["gpu-3"])),
        "guardrails": Edit(kind="guardrails", after=section(guardrails={"mode": "warn"})),
        "guardrails taken out": Edit(
            kind="guardrails", before=section(guardrails={"mode": "warn"}), after=no("guardrails")
        ),
        "scheduling": Edit(
            kind="scheduling",
            after=section(scheduling={"priorityClasses": [{"name": "train", "value": 1000}]}),
        ),
        "a longer validation": Edit(
            kind="validation", after=section(validation={"timeoutSeconds": 121})
        ),
    }
)
"""The edits, by name."""
