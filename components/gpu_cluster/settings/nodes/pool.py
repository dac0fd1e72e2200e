"""Pools: groups of equal nodes, selected by name or by label, with a number of GPUs per node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictInt, model_validator

from gpu_cluster.base.model import Freeze, FrozenDict
from gpu_cluster.base.names import LabelKey, LabelValue, NodeName, OwnLabelKey, PoolName
from gpu_cluster.settings.hosts.sections import NodeSections
from gpu_cluster.settings.hosts.ssh import Reach
from gpu_cluster.settings.nodes.devices import GPU_LIMIT, MigCount, Profile, UnhealthyDevices
from gpu_cluster.settings.nodes.node_range import NODE_LIMIT, NodeNames, written_out
from gpu_cluster.settings.nodes.scheduling import NodeSchedulingSettings
from gpu_cluster.settings.nodes.taint import GPU_TAINT, Taint
from gpu_rules.faults import refuse, show
from gpu_rules.kube.gpu_resources import GPU

GPU_LABELS: FrozenDict[str, str] = FrozenDict({GPU: "true"})


def _distinct_taints(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    for index, taint in enumerate(taints):
        if any(taint.node_taint.is_same(earlier.node_taint) for earlier in taints[:index]):
            raise refuse(
                f"two taints {taint.key} with effect {taint.effect}",
                "each pair of key and effect once, as the API server requires",
                "remove the second one",
            )
    return taints


class Pool(NodeSections):
    """A group of nodes with the same hardware and settings.

    A pool selects its nodes either by `nodes` (names and ranges such as `gpu-[1-4]`) or by
    `selector` (node labels) and `count` (the number of nodes that must match). `labels` and
    `taints` in the stack file replace the defaults; a pool without GPUs has no default labels or
    taints. `startupTaint` is true by default for pools with `nodes`. It is false by default for
    pools with `selector`, because their nodes can join while this program isn't running, so that
    nothing would remove the taint.
    """

    name: PoolName = Field(description="the pool's name, such as a100", examples=["a100"])
    nodes: NodeNames | None = Field(
        default=None,
        min_length=1,
        description="a list of node names or ranges, such as gpu-[1-4]",
        examples=["[gpu-1, gpu-2]"],
    )
    selector: Annotated[dict[LabelKey, LabelValue], Freeze] | None = Field(
        default=None,
        min_length=1,
        description="a mapping of node labels to values",
        examples=["{node.kubernetes.io/instance-type: dgx}"],
    )
    count: StrictInt | None = Field(
        default=None,
        ge=1,
        le=NODE_LIMIT,
        description=f"a whole number from 1 to {NODE_LIMIT}, the nodes that the selector finds",
        examples=[4],
    )
    gpus_per_node: StrictInt = Field(
        ge=0,
        le=GPU_LIMIT,
        description=f"a whole number from 0 to {GPU_LIMIT}, the GPUs of one node",
        examples=[8],
    )
    gpu_memory_mib: StrictInt | None = Field(
        default=None,
        ge=1,
        alias="gpuMemoryMiB",
        description="a whole number, the memory of one GPU in MiB, by which the rules about "
        "vcuda-memory judge",
        examples=[40960],
    )
    labels: Annotated[dict[OwnLabelKey, LabelValue], Freeze] = Field(
        default=GPU_LABELS,
        description="a mapping of label keys to values",
        examples=['{nvidia.com/gpu: "true", example.com/rack: r3}'],
    )
    taints: Annotated[tuple[Taint, ...], AfterValidator(_distinct_taints)] = Field(
        default=(GPU_TAINT,),
        description="a list of taints, such as nvidia.com/gpu=present:NoSchedule",
        examples=["[nvidia.com/gpu=present:NoSchedule]"],
    )
    ssh: Reach = Field(
        default=Reach(), description="a mapping: how the pool's hosts are reached, over the stack's"
    )

    startup_taint: StrictBool | None = Field(
        default=None,
        description="true or false: nodes take no pods until each of their GPUs ran a kernel",
        examples=["true"],
    )
    mig: Annotated[dict[Profile, MigCount], Freeze] = Field(
        default=FrozenDict(),
        description="a mapping of MIG profiles to devices per GPU, such as 1g.5gb: 7",
        examples=["{1g.5gb: 7}"],
    )
    unhealthy_devices: Annotated[dict[NodeName, UnhealthyDevices], Freeze] = Field(
        default=FrozenDict(), description="a mapping of node names to GPUs that are left out"
    )

    @model_validator(mode="before")
    @classmethod
    def _plain_without_gpus(cls, data: Any) -> Any:
        """Give a pool without GPUs neither the default GPU label nor the default GPU taint."""
        if not isinstance(data, Mapping):
            return data
        gpus = data.get("gpusPerNode", data.get("gpus_per_node"))
        if type(gpus) is int and gpus == 0:
            return {"labels": {}, "taints": [], **data}
        return data

    @model_validator(mode="after")
    def _one_way_to_find_nodes(self) -> Pool:
        if (self.nodes is None) == (self.selector is None):
            raise refuse(
                "neither" if self.nodes is None else "both nodes and selector",
                "either nodes (names) or selector (labels) with count",
                'add "nodes: [gpu-1]", or add "selector: {gpu: a100}" and "count: 4"'
                if self.nodes is None
                else "remove nodes, or remove selector and count",
            )
        if self.selector is not None and self.count is None:
            raise refuse(
                "a selector without count",
                "count, the number of nodes that the selector must find",
                'add "count: 4"; the number of nodes of this pool',
            )
        if self.selector is None and self.count is not None:
            raise refuse(
                f"both count {self.count} and nodes",
                "count only with a selector; names are counted",
                "remove count",
            )
        return self

    @property
    def node_names(self) -> tuple[str, ...]:
        """Return the names of the pool's nodes; empty if the pool selects its nodes by label."""
        return written_out(self.nodes or ())

    @model_validator(mode="after")
    def _devices_are_there(self) -> Pool:
        if self.mig and not self.gpus_per_node:
            raise refuse("mig in a pool without GPUs", "GPUs that can be partitioned", "remove mig")
        for node, devices in self.unhealthy_devices.items():
            if self.nodes is not None and node not in self.node_names:
                raise refuse(
                    f"unhealthyDevices of {show(node)}, which is not in the pool",
                    "nodes of this pool",
                    "remove it, or write it in the node's pool",
                )
            if self.selector is not None:
                raise refuse(
                    "unhealthyDevices in a pool by selector",
                    "nodes by name: a GPU is left out on one node",
                    "declare the node in a separate pool",
                )
            visible = self.gpus_per_node - devices.hidden
            wrong = [index for index in devices.index if index >= visible]
            if wrong:
                raise refuse(
                    f"GPU {wrong[0]} of {show(node)}",
                    f"an index from 0 to {visible - 1}",
                    "take the index that `nvidia-smi -L` shows on that node",
                )
            if devices.count >= self.gpus_per_node:
                raise refuse(
                    f"all {self.gpus_per_node} GPUs of {show(node)}",
                    "a node with GPUs left",
                    "take the node out of the pool",
                )
        return self

    @property
    def has_startup_taint(self) -> bool:
        """Return True if new nodes are tainted until each of their GPUs has run a CUDA kernel."""
        by_default = self.nodes is not None
        is_declared = by_default if self.startup_taint is None else self.startup_taint
        return bool(self.gpus_per_node) and is_declared

    def on_the_bus(self, node: str) -> int:
        """Return the number of GPUs that a node's driver shows, including unhealthy GPUs."""
        devices = self.unhealthy_devices.get(node)
        return self.gpus_per_node - (devices.hidden if devices else 0)

    @property
    def size(self) -> int:
        """Return the number of nodes that the pool must have."""
        return self.count if self.count is not None else len(self.node_names)

    @property
    def gpus(self) -> int:
        """Return the number of healthy GPUs of all nodes of the pool."""
        left_out = sum(devices.count for devices in self.unhealthy_devices.values())
        return self.size * self.gpus_per_node - left_out

    def parts(self, node_settings: Mapping[str, NodeSchedulingSettings]) -> tuple[Pool, ...]:
        """Return the pool, split into pools whose nodes have equal labels, taints and healthy GPUs.

        Args:
            node_settings: Labels and taints of single nodes, which override the pool's, by node.
        """
        if not self.unhealthy_devices and node_settings.keys().isdisjoint(self.node_names):
            return (self,)
        nodes: dict[tuple[int, NodeSchedulingSettings], list[str]] = {}
        plain = NodeSchedulingSettings()
        for node in self.node_names:
            devices = self.unhealthy_devices.get(node)
            gpus = self.gpus_per_node - (devices.count if devices else 0)
            nodes.setdefault((gpus, node_settings.get(node, plain)), []).append(node)
        return tuple(
            self.model_copy(
                update={
                    "nodes": tuple(names),
                    "gpus_per_node": gpus,
                    "unhealthy_devices": FrozenDict(),
                    "labels": settings.labels_over(self.labels),
                    "taints": settings.taints_over(self.taints),
                }
            )
            for (gpus, settings), names in sorted(nodes.items(), key=lambda item: -item[0][0])
        )


def gpu_pools(pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    """Return the pools whose nodes have GPUs."""
    return tuple(pool for pool in pools if pool.gpus_per_node)
