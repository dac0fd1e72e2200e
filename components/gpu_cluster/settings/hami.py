"""Section `hami` of the stack file: HAMi, which shares GPUs by memory and cores.

Source: Project-HAMi/HAMi v2.10.0 (4707fb02), charts/hami/values.yaml, pkg/util/types.go (policies)
and pkg/device/nvidia/device.go (core policies, `NodeDefaultConfig`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, StrictFloat, StrictInt, StrictStr

from gpu_cluster.base.model import FrozenDict, Model
from gpu_cluster.base.names import OwnNamespace
from gpu_cluster.base.versions import pattern
from gpu_cluster.charts.extra_values import ExtraValues
from gpu_cluster.charts.version import UnknownVersion, chart_version


class NodePolicy(StrEnum):
    """Nodes that HAMi's scheduler prefers: those in use, or those with the most free GPUs."""

    BINPACK = "binpack"
    SPREAD = "spread"


class GpuPolicy(StrEnum):
    """GPUs that HAMi's scheduler prefers on a node; `mutex` only assigns GPUs that no pod has."""

    BINPACK = "binpack"
    SPREAD = "spread"
    TOPOLOGY = "topology-aware"
    MUTEX = "mutex"


class CorePolicy(StrEnum):
    """When HAMi limits a container's cores: if pods share its GPU, always, or never."""

    DEFAULT = "default"
    FORCE = "force"
    DISABLE = "disable"


class HamiSettings(Model):
    """The Helm release of HAMi: its device plugin, its scheduler and its admission webhook.

    A pod requests GPUs with `nvidia.com/gpu`, and a share of each with `nvidia.com/gpumem` (MiB),
    `nvidia.com/gpumem-percentage` and `nvidia.com/gpucores` (hundredths of a GPU). Without these a
    container gets whole GPUs. HAMi's webhook passes such pods to HAMi's own scheduler.

    Each GPU is advertised `deviceSplitCount` times, so at most as many containers share it.
    `deviceMemoryScaling` above 1 promises more memory than the GPUs have. The scheduler runs
    kube-scheduler in the cluster's own version, unless `kubeSchedulerVersion` names another.
    """

    UNPROVEN: ClassVar[frozenset[str]] = frozenset(
        {"unknown_version", "kube_scheduler_version", "core_policy", "node_policy", "extra_values"}
    )

    unknown_version: UnknownVersion = False
    version: Annotated[StrictStr, AfterValidator(chart_version("hami", "2.10.0"))] = Field(
        default="2.10.0", description="a chart version such as 2.10.0", examples=["2.10.0"]
    )
    namespace: OwnNamespace = Field(default="hami", description="a namespace", examples=["hami"])
    device_split_count: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(
        default=10,
        description="the most containers that share one GPU, from 1 to 1000",
        examples=["10"],
    )
    device_memory_scaling: Annotated[StrictFloat | StrictInt, Field(gt=0, le=10)] = Field(
        default=1,
        description="a factor for the memory of GPUs, above 0 and at most 10",
        examples=["1"],
    )
    node_policy: NodePolicy = Field(
        default=NodePolicy.BINPACK, description="binpack or spread", examples=["binpack"]
    )
    gpu_policy: GpuPolicy = Field(
        default=GpuPolicy.SPREAD,
        description="binpack, spread, topology-aware or mutex",
        examples=["spread"],
    )
    core_policy: CorePolicy = Field(
        default=CorePolicy.DEFAULT,
        description="default, force or disable: when HAMi limits cores",
        examples=["default"],
    )
    kube_scheduler_version: (
        Annotated[
            StrictStr,
            AfterValidator(
                pattern(r"v\d+\.\d+\.\d+", "a version of kube-scheduler such as v1.36.6", "v1.36.6")
            ),
        ]
        | None
    ) = Field(default=None, description="a version of kube-scheduler's image", examples=["v1.36.6"])
    extra_values: ExtraValues = Field(
        default=FrozenDict(),
        description="a mapping of the chart's own values",
        examples=["{scheduler: {replicas: 2}}"],
    )
