"""Section `dra` of the stack file: NVIDIA's driver for Dynamic Resource Allocation (DRA).

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0, deployments/helm/dra-driver-nvidia-gpu. Up to
version 25.12.0 the repository was NVIDIA/k8s-dra-driver-gpu, and its chart had another name.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.names import DnsLabel, OwnNamespace, PoolName
from gpu_cluster.charts.extra_values import ExtraValues
from gpu_cluster.charts.version import UnknownVersion, chart_version


class DraSettings(Model):
    """The Helm release of the DRA driver, and a ResourceClaimTemplate per pool and namespace.

    Each template has the name `<pool>-gpu`. `selectors` maps a pool to a CEL expression over a
    device, which the pool's template contains; a template without an expression accepts any GPU.
    `computeDomains` turns on multi-node NVLink and is off by default.
    """

    UNPROVEN: ClassVar[frozenset[str]] = frozenset(
        {"unknown_version", "compute_domains", "claim_namespaces", "selectors", "extra_values"}
    )

    unknown_version: UnknownVersion = False
    version: Annotated[
        StrictStr, AfterValidator(chart_version("dra-driver-nvidia-gpu", "0.5.0"))
    ] = Field(default="0.5.0", description="a chart version such as 0.5.0", examples=["0.5.0"])
    namespace: OwnNamespace = Field(
        default="nvidia-dra-driver", description="a namespace", examples=["nvidia-dra-driver"]
    )
    compute_domains: StrictBool = Field(
        default=False, description="true or false: multi-node NVLink", examples=["false"]
    )
    claim_namespaces: tuple[DnsLabel, ...] = Field(
        default=("default",),
        description="a list of namespaces that get the pools' claim templates",
        examples=["[default]"],
    )
    selectors: Annotated[dict[PoolName, StrictStr], Freeze] = Field(
        default=FrozenDict({}),
        description="a mapping of pool names to CEL expressions over a device",
        examples=["{a100: \"device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100'\"}"],
    )
    extra_values: ExtraValues = Field(
        default=FrozenDict(),
        description="a mapping of the chart's own values",
        examples=["{logVerbosity: '4'}"],
    )
