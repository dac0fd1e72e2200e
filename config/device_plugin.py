"""NVIDIA's device plugin: its chart, and its configuration file of version v1.

The file's format: k8s-device-plugin v0.20.0, `api/config/v1`. The plugin itself drops unknown
keys silently, so they are refused here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from config.model import Model, Text, Truth, Whole
from config.names import DnsLabel
from config.problem import refuse, show
from config.versions import pattern


class MigStrategy(StrEnum):
    """How MIG devices are advertised."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class DeviceListStrategy(StrEnum):
    """How the container runtime is told which devices a container gets."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_ANNOTATIONS = "cdi-annotations"
    CDI_CRI = "cdi-cri"


class DeviceIdStrategy(StrEnum):
    """How devices are named to the container runtime."""

    UUID = "uuid"
    INDEX = "index"


def _absolute(text: str) -> str:
    if not text.startswith("/"):
        raise refuse(show(text), "an absolute path", "write a path such as / or /run/nvidia/driver")
    return text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class PluginFlags(Model):
    """`flags.plugin` of the file; the defaults are the plugin's own."""

    pass_device_specs: Truth = Field(default=False, description="true or false", examples=["false"])
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


class Flags(Model):
    """`flags` of the file; the defaults are the plugin's own."""

    mig_strategy: MigStrategy = Field(
        default=MigStrategy.NONE, description="none, single or mixed", examples=["none"]
    )
    fail_on_init_error: Truth = Field(default=True, description="true or false", examples=["true"])
    nvidia_driver_root: Annotated[Text, AfterValidator(_absolute)] = Field(
        default="/", description="the driver's root directory on the node", examples=["/"]
    )
    plugin: PluginFlags = Field(
        default=PluginFlags(), description="a mapping of the plugin's own flags"
    )


class SharedResource(Model):
    """One resource that is offered several times."""

    name: Text = Field(
        min_length=1,
        max_length=63,
        description="a resource name such as nvidia.com/gpu",
        examples=["nvidia.com/gpu"],
    )
    replicas: Whole = Field(
        ge=2, le=1000, description="a whole number from 2 to 1000", examples=[4]
    )


class TimeSlicing(Model):
    """Several pods on one GPU, one after the other, without memory isolation."""

    resources: tuple[SharedResource, ...] = Field(
        min_length=1, description="a list of resources, each with name and replicas"
    )


class Sharing(Model):
    """`sharing` of the file."""

    time_slicing: TimeSlicing | None = Field(default=None, description="a mapping with resources")


class DevicePluginConfig(Model):
    """The plugin's configuration file."""

    version: Literal["v1"] = Field(default="v1", description="v1", examples=["v1"])
    flags: Flags = Field(default=Flags(), description="a mapping of flags")
    sharing: Sharing = Field(default=Sharing(), description="a mapping with timeSlicing")

    def document(self) -> dict[str, Any]:
        """The file's content under the plugin's own key names, for the ConfigMap."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if not document["sharing"]:
            del document["sharing"]
        return document

    def replicas(self, resource: str = "nvidia.com/gpu") -> int:
        """How often each device of the resource is offered: 1 without sharing."""
        slicing = self.sharing.time_slicing
        for shared in slicing.resources if slicing else ():
            if shared.name in (resource, resource.removeprefix("nvidia.com/")):
                return shared.replicas
        return 1


class DevicePlugin(Model):
    """The Helm release. `gfd` adds GPU feature discovery (and with it its labels)."""

    version: Annotated[
        Text,
        AfterValidator(
            pattern(r"\d+\.\d+\.\d+(-[a-z0-9.]+)?", "a chart version such as 0.20.0", "0.20.0")
        ),
    ] = Field(default="0.20.0", description="a chart version such as 0.20.0", examples=["0.20.0"])
    namespace: DnsLabel = Field(
        default="nvidia-device-plugin", description="a namespace", examples=["nvidia-device-plugin"]
    )
    config: DevicePluginConfig = Field(
        default=DevicePluginConfig(),
        description="a mapping: the plugin's configuration file, version v1",
    )
    gfd: Truth = Field(
        default=False, description="true or false: GPU feature discovery", examples=["false"]
    )
