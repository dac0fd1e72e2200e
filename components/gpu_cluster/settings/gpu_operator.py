"""Section `gpuOperator` of the stack file: NVIDIA's GPU Operator."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from gpu_cluster.base.model import FrozenDict, Model
from gpu_cluster.base.names import DnsSubdomain, OwnNamespace
from gpu_cluster.base.versions import pattern
from gpu_cluster.charts.extra_values import ExtraValues
from gpu_cluster.charts.version import UnknownVersion, chart_version
from gpu_cluster.kubernetes.resources import MIG_STATE, UPGRADE
from gpu_cluster.settings.device_plugin import PluginFiles
from gpu_cluster.settings.plugin_flags import MigStrategy
from gpu_rules.faults import refuse, show

# Node label; the value `false` removes every operand from the node (gpu-operator v26.7.0,
# controllers/state_manager.go).
OPERANDS_LABEL = "nvidia.com/gpu.deploy.operands"
OPERAND_LABELS = "nvidia.com/gpu.deploy."
# Labels that the GPU Operator and MIG manager update themselves; a stack file must not set
# these labels.
STATE_LABELS = (UPGRADE, MIG_STATE)
# Oldest vGPU host driver that works with the driver containers of virtual machines (NVIDIA GPU
# Operator with vGPU, "Prerequisites").
OLDEST_VGPU_HOST = (12, 0)


class Distribution(StrEnum):
    """Kubernetes distribution of the nodes; it sets the paths of containerd's files."""

    PLAIN = "plain"
    K3S = "k3s"
    RKE2 = "rke2"


class Workload(StrEnum):
    """Use of a node's GPUs if the node has no label `nvidia.com/gpu.workload.config`."""

    CONTAINER = "container"
    VM_PASSTHROUGH = "vm-passthrough"
    VM_VGPU = "vm-vgpu"


class SandboxMode(StrEnum):
    """Software that runs virtual machines on the nodes."""

    KUBEVIRT = "kubevirt"
    KATA = "kata"


_SHARE = re.compile(r"(100|[1-9]?\d)%")


def _validate_node_share(value: int | str) -> int | str:
    if isinstance(value, str) and _SHARE.fullmatch(value) is None:
        raise refuse(show(value), 'a number of nodes or a share such as "25%"', 'write "25%"')
    return value


_SECONDS = {
    "description": "a whole number from 0 to 86400, seconds; 0: no limit",
    "le": 86400,
    "examples": [600],
}
_SELECTOR = {"description": "a label selector such as app=training", "examples": ["app=training"]}


class Wait(Model):
    """Pods whose end the operator waits for before it upgrades a node's driver."""

    pod_selector: StrictStr = Field(default="", **_SELECTOR)  # type: ignore[call-overload]
    timeout_seconds: StrictInt = Field(default=0, ge=0, **_SECONDS)  # type: ignore[call-overload]


class PodDeletion(Model):
    """Deletion of GPU pods by the operator before it upgrades a node's driver."""

    force: StrictBool = Field(default=False, description="true or false", examples=["false"])
    timeout_seconds: StrictInt = Field(default=300, ge=0, **_SECONDS)  # type: ignore[call-overload]
    delete_empty_dir: StrictBool = Field(
        default=False, description="true or false", examples=["false"]
    )


class Drain(PodDeletion):
    """Drain of a node by the operator, if deleting GPU pods is not enough for the upgrade."""

    pod_selector: StrictStr = Field(default="", **_SELECTOR)  # type: ignore[call-overload]


class DriverUpgrade(Model):
    """The operator's driver upgrade policy; the default values are those of the operator."""

    automatic: StrictBool = Field(default=True, description="true or false", examples=["true"])
    parallel: StrictInt = Field(
        default=1,
        ge=0,
        description="a whole number of nodes; 0: all at the same time",
        examples=[1],
    )
    max_unavailable: Annotated[StrictInt | StrictStr, AfterValidator(_validate_node_share)] = Field(
        default="25%", description='a number of nodes or a share such as "25%"', examples=['"25%"']
    )
    wait: Wait = Field(default=Wait(), description="a mapping with podSelector, timeoutSeconds")
    pod_deletion: PodDeletion = Field(
        default=PodDeletion(), description="a mapping with force, timeoutSeconds, deleteEmptyDir"
    )
    drain: Drain | None = Field(
        default=None, description="a mapping with force, podSelector, timeoutSeconds"
    )


class Sandbox(Model):
    """Settings for virtual machines on GPU nodes."""

    default_workload: Workload = Field(
        default=Workload.CONTAINER,
        description="container, vm-passthrough or vm-vgpu",
        examples=["container"],
    )
    mode: SandboxMode = Field(
        default=SandboxMode.KUBEVIRT, description="kubevirt or kata", examples=["kubevirt"]
    )


def _host_version(text: str) -> str:
    if tuple(int(number) for number in text.split(".")) < OLDEST_VGPU_HOST:
        raise refuse(
            show(text),
            "a vGPU host driver of version 12.0 or later",
            "upgrade the host driver of the hypervisors",
        )
    return text


class VgpuFeature(StrEnum):
    """vGPU license type of virtual machines."""

    VGPU = "vgpu"
    WORKSTATION = "workstation"
    COMPUTE = "compute"


class Vgpu(Model):
    """Settings for nodes that are virtual machines with NVIDIA vGPUs.

    `hostDriver` is the vGPU release on the hypervisors. `licenseSecret` names the Secret in the
    operator's namespace that contains gridd.conf and client_configuration_token.tok; this program
    creates the Secret if the stack has the secret `gpu-cluster:licenseToken`, and expects an
    existing Secret otherwise. `licenseServer` is the host and port that the preflight check
    connects to. `feature` is the license type of the virtual machines; without it their vGPU type
    determines the license.
    """

    host_driver: Annotated[
        StrictStr,
        AfterValidator(pattern(r"\d{1,2}\.\d{1,2}", "a vGPU release such as 16.4", "16.4")),
        AfterValidator(_host_version),
    ] = Field(description="a vGPU release such as 16.4", examples=["16.4"])
    license_secret: DnsSubdomain = Field(
        description="the name of a Secret", examples=["licensing-config"]
    )
    license_server: (
        Annotated[
            StrictStr,
            AfterValidator(
                pattern(r"[A-Za-z0-9.-]+:\d{1,5}", "host and port", "licences.example.com:443")
            ),
        ]
        | None
    ) = Field(default=None, description="host and port", examples=["licences.example.com:443"])
    feature: VgpuFeature | None = Field(
        default=None, description="vgpu, workstation or compute", examples=["compute"]
    )


class OperatorPlugin(PluginFiles):
    """Configuration files of the operator's device plugin; by default the plugin uses its own."""


class GpuOperatorSettings(Model):
    """The Helm release of the GPU Operator.

    The version begins with `v`, both in the chart and in its git tag. With `toolkit`, the operator
    configures the container runtime of the nodes. By default it does so only if the operator also
    installs the driver. It does not do so if the hosts are prepared over SSH, because two writers
    of one runtime configuration would undo each other's changes. With `nri`, devices are injected
    through the runtime's NRI (Node Resource Interface), without a change of its configuration.
    """

    unknown_version: UnknownVersion = False
    version: Annotated[StrictStr, AfterValidator(chart_version("gpu-operator", "v26.7.1"))] = Field(
        default="v26.7.1", description="a chart version such as v26.7.1", examples=["v26.7.1"]
    )
    namespace: OwnNamespace = Field(
        default="gpu-operator", description="a namespace", examples=["gpu-operator"]
    )
    toolkit: StrictBool = Field(
        default=False,
        description="true or false: the operator configures the container runtime",
        examples=["false"],
    )
    distribution: Distribution = Field(
        default=Distribution.PLAIN, description="plain, k3s or rke2", examples=["plain"]
    )
    nri: StrictBool = Field(default=False, description="true or false", examples=["false"])
    nfd: StrictBool = Field(
        default=True,
        description="true or false: the chart's Node Feature Discovery",
        examples=["true"],
    )
    mig_strategy: MigStrategy = Field(
        default=MigStrategy.SINGLE, description="none, single or mixed", examples=["single"]
    )
    upgrade: DriverUpgrade | None = Field(
        default=None, description="a mapping: how new driver versions reach nodes"
    )
    sandbox: Sandbox | None = Field(
        default=None, description="a mapping with defaultWorkload and mode"
    )
    vgpu: Vgpu | None = Field(
        default=None, description="a mapping with hostDriver and licenseSecret"
    )
    device_plugin: OperatorPlugin | None = Field(
        default=None, description="a mapping with config and configs"
    )
    extra_values: ExtraValues = Field(
        default=FrozenDict(),
        description="a mapping of the chart's own values",
        examples=["{dcgm: {enabled: true}}"],
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.nri and not self.toolkit:
            raise refuse(
                "nri: true with toolkit: false",
                "the operator's toolkit, whose plugin NRI loads",
                'write "toolkit: true"',
            )
        if self.upgrade and self.sandbox:
            raise refuse(
                "both upgrade and sandbox",
                "no upgrade policy with sandbox workloads: the operator upgrades no driver then",
                "remove upgrade, or remove sandbox",
            )
        return self
