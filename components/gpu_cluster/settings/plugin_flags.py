"""Flags of the device plugin's configuration file, and their allowed values.

Format: NVIDIA/k8s-device-plugin v0.20.0, `api/config/v1/flags.go` and `consts.go`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_rules.faults import refuse, show


class MigStrategy(StrEnum):
    """Resource names under which the plugin advertises MIG devices."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class DeviceListStrategy(StrEnum):
    """Way in which the plugin passes a container's device list to the container runtime."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"


CDI = (DeviceListStrategy.CDI_ANNOTATIONS, DeviceListStrategy.CDI_CRI)


class DeviceIdStrategy(StrEnum):
    """Identifier of a device that the plugin passes to the container runtime."""

    UUID = "uuid"
    INDEX = "index"


class DeviceDiscovery(StrEnum):
    """Method by which the plugin discovers the GPUs of a node."""

    AUTO = "auto"
    NVML = "nvml"
    TEGRA = "tegra"


class AllocationPolicy(StrEnum):
    """Order in which a pod gets replicas of shared devices; needs plugin 0.20.0 or later."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"


def _validate_absolute_path(text: str) -> str:
    if not text.startswith("/"):
        raise refuse(
            show(text),
            "an absolute path",
            "write a path such as /run/nvidia/driver",
        )
    return text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_DURATION = re.compile(r"(\d+(\.\d+)?(ms|s|m|h))+|infinite")


def _validate_duration(text: str) -> str:
    if _DURATION.fullmatch(text) is None:
        raise refuse(show(text), "a duration such as 60s, or infinite", "write 60s, for example")
    return text


Path = Annotated[StrictStr, AfterValidator(_validate_absolute_path)]
OWN: dict[str, Any] = {"default": None}
"""Keyword arguments of an optional field; without a value the plugin's own default applies."""


class PluginFlags(Model):
    """Key `flags.plugin` of the device plugin's configuration file, with the plugin's defaults."""

    pass_device_specs: StrictBool = Field(
        default=False, description="true or false", examples=["false"]
    )
    device_list_strategy: Annotated[tuple[DeviceListStrategy, ...], BeforeValidator(_as_list)] = (
        Field(
            default=(DeviceListStrategy.ENVVAR,),
            min_length=1,
            description="envvar, volume-mounts, cdi-annotations or cdi-cri, or a list of them",
            examples=["envvar"],
        )
    )
    device_id_strategy: DeviceIdStrategy = Field(
        default=DeviceIdStrategy.UUID,
        alias="deviceIDStrategy",
        description="uuid or index",
        examples=["uuid"],
    )
    cdi_annotation_prefix: StrictStr | None = Field(
        **OWN, description="a prefix of annotations", examples=["cdi.k8s.io/"]
    )
    nvidia_ctk_path: Path | None = Field(
        **OWN,
        alias="nvidiaCTKPath",
        description="the path of nvidia-cdi-hook or nvidia-ctk on the node",
        examples=["/usr/bin/nvidia-ctk"],
    )
    container_driver_root: Path | None = Field(
        **OWN,
        description="path of the driver's root in the plugin's container",
        examples=["/driver-root"],
    )
    shared_devices_allocation_policy: AllocationPolicy | None = Field(
        **OWN, description="distributed or packed", examples=["distributed"]
    )


class GfdFlags(Model):
    """Key `flags.gfd` of the plugin's configuration file: flags of GPU feature discovery."""

    oneshot: StrictBool | None = Field(**OWN, description="true or false", examples=["false"])
    no_timestamp: StrictBool | None = Field(**OWN, description="true or false", examples=["false"])
    sleep_interval: Annotated[StrictStr, AfterValidator(_validate_duration)] | None = Field(
        **OWN, description="a duration such as 60s, or infinite", examples=["60s"]
    )
    output_file: Path | None = Field(
        **OWN,
        description="an absolute path",
        examples=["/etc/kubernetes/node-feature-discovery/features.d/gfd"],
    )
    machine_type_file: Path | None = Field(
        **OWN, description="an absolute path", examples=["/sys/class/dmi/id/product_name"]
    )


class Flags(Model):
    """Key `flags` of the device plugin's configuration file, with the plugin's defaults."""

    mig_strategy: MigStrategy = Field(
        default=MigStrategy.NONE, description="none, single or mixed", examples=["none"]
    )
    fail_on_init_error: StrictBool = Field(
        default=True, description="true or false", examples=["true"]
    )
    mps_root: Path | None = Field(
        **OWN, description="the node's folder for MPS", examples=["/run/nvidia/mps"]
    )
    nvidia_driver_root: Path = Field(
        default="/", description="the driver's root directory on the node", examples=["/"]
    )
    nvidia_dev_root: Path | None = Field(
        **OWN, description="folder of the node's device files", examples=["/"]
    )
    gdrcopy_enabled: StrictBool | None = Field(
        **OWN, description="true or false", examples=["false"]
    )
    gds_enabled: StrictBool | None = Field(**OWN, description="true or false", examples=["false"])
    mofed_enabled: StrictBool | None = Field(**OWN, description="true or false", examples=["false"])
    use_node_feature_api: StrictBool | None = Field(
        **OWN, alias="useNodeFeatureAPI", description="true or false", examples=["true"]
    )
    device_discovery_strategy: DeviceDiscovery | None = Field(
        **OWN, description="auto, nvml or tegra", examples=["auto"]
    )
    plugin: PluginFlags = Field(
        default=PluginFlags(), description="a mapping of the plugin's own flags"
    )
    gfd: GfdFlags | None = Field(
        default=None, description="a mapping of GPU feature discovery's own flags"
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        by_cdi = [strategy for strategy in self.plugin.device_list_strategy if strategy in CDI]
        if by_cdi and self.device_discovery_strategy is DeviceDiscovery.TEGRA:
            raise refuse(
                f"deviceListStrategy {by_cdi[0]} with deviceDiscoveryStrategy tegra",
                "a CDI strategy only if the plugin finds devices by NVML",
                'write "deviceDiscoveryStrategy: nvml", or "deviceListStrategy: envvar"',
            )
        return self
