"""Configuration file of NVIDIA's device plugin, version v1.

Format: NVIDIA/k8s-device-plugin v0.20.0, `api/config/v1`. The plugin ignores unknown keys silently
and ignores some known keys with a warning in its log. This program rejects both kinds of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from gpu_cluster.base.model import Model
from gpu_cluster.settings.plugin_flags import OWN, Flags, MigStrategy
from gpu_rules.faults import refuse, show
from gpu_rules.kube.gpu_resources import GPU

# Suffix of a shared resource's name if `renameByDefault` is true (api/config/v1/consts.go).
SHARED = ".shared"


def _validate_resource_name(text: str) -> str:
    full = text if "/" in text else f"nvidia.com/{text}"
    if len(full) > 63 or not full.startswith("nvidia.com/"):
        raise refuse(
            show(text),
            "a resource of nvidia.com/, at most 63 characters with that prefix",
            f"write {GPU} or nvidia.com/mig-1g.5gb",
        )
    return text


def _refuse_dropped_key(data: Any, key: str, wanted: str) -> Any:
    """Return the data if the key is absent; reject a key that the device plugin drops.

    The plugin parses such keys and drops them with a warning (api/config/v1/config.go).
    """
    if isinstance(data, Mapping) and key in data:
        raise refuse(f"{key}, which the plugin reads and then ignores", wanted, f"remove {key}")
    return data


class SharedResource(Model):
    """One extended resource that the plugin advertises several times per device."""

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, data: Any) -> Any:
        data = _refuse_dropped_key(data, "rename", "renameByDefault, or the resource's own name")
        return _refuse_dropped_key(data, "devices", "all devices of the resource")

    name: Annotated[StrictStr, AfterValidator(_validate_resource_name)] = Field(
        min_length=1, description=f"a resource name such as {GPU}", examples=[GPU]
    )
    replicas: StrictInt = Field(
        ge=2, le=1000, description="a whole number from 2 to 1000", examples=[4]
    )

    @property
    def resource(self) -> str:
        """Return the full resource name with the prefix `nvidia.com/`."""
        return self.name if "/" in self.name else f"nvidia.com/{self.name}"


MPS_CLIENTS = 48
"""Maximum number of MPS clients of one GPU (k8s-device-plugin v0.19.3,
cmd/mps-control-daemon/mps/device.go, maxClients).
"""


class Replicated(Model):
    """Resources that are advertised several times, with their number of replicas and options."""

    rename_by_default: StrictBool | None = Field(
        **OWN,
        description=f"true or false: shared resources are called {GPU}{SHARED}",
        examples=["false"],
    )
    fail_requests_greater_than_one: StrictBool | None = Field(
        **OWN,
        description="true or false: a pod gets one replica only",
        examples=["false"],
    )
    resources: tuple[SharedResource, ...] = Field(
        min_length=1,
        description="a list of resources, each with name and replicas",
        examples=["[{name: nvidia.com/gpu, replicas: 4}]"],
    )

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        names = [resource.resource for resource in self.resources]
        if twice := {name for name in names if names.count(name) > 1}:
            raise refuse(f"{sorted(twice)[0]} twice", "each resource once", "remove the second one")
        return self


class PluginSharing(Model):
    """Key `sharing` of the device plugin's configuration file: time slicing or MPS."""

    time_slicing: Replicated | None = Field(default=None, description="a mapping with resources")
    mps: Replicated | None = Field(default=None, description="a mapping with resources")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.time_slicing and self.mps:
            raise refuse(
                "both timeSlicing and mps",
                "one way of sharing: with mps the plugin ignores timeSlicing",
                "remove timeSlicing, or remove mps",
            )
        most = (
            max((resource.replicas for resource in self.mps.resources), default=0)
            if self.mps
            else 0
        )
        if most > MPS_CLIENTS:
            raise refuse(
                f"mps with {most} replicas",
                f"{MPS_CLIENTS} or fewer: with more, NVIDIA's MPS daemon of a GPU doesn't start",
                f'write "replicas: {MPS_CLIENTS}", or rename mps to timeSlicing',
            )
        return self

    @property
    def replicated(self) -> Replicated | None:
        """Return the configured sharing (`mps` or `timeSlicing`); None if GPUs are not shared."""
        return self.mps or self.time_slicing


class Imex(Model):
    """Key `imex` of the configuration file: channels between nodes that share NVLink memory."""

    channel_ids: tuple[Literal[0], ...] = Field(
        default=(), alias="channelIDs", max_length=1, description="[] or [0]", examples=["[0]"]
    )
    required: StrictBool = Field(default=False, description="true or false", examples=["false"])


class DevicePluginConfig(Model):
    """Content of the device plugin's configuration file."""

    version: Literal["v1"] = Field(default="v1", description="v1", examples=["v1"])
    flags: Flags = Field(default=Flags(), description="a mapping of flags")
    sharing: PluginSharing = Field(
        default=PluginSharing(), description="a mapping with timeSlicing or mps"
    )
    imex: Imex | None = Field(default=None, description="a mapping with channelIDs")

    @model_validator(mode="before")
    @classmethod
    def _no_resources(cls, data: Any) -> Any:
        return _refuse_dropped_key(data, "resources", "resource names as they are")

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.sharing.mps and self.flags.mig_strategy is MigStrategy.MIXED:
            raise refuse(
                "sharing.mps with migStrategy mixed",
                "MPS only with migStrategy none or single: the plugin ends at its start otherwise",
                'write "migStrategy: single" in flags, or rename mps to timeSlicing',
            )
        return self

    def document(self) -> dict[str, Any]:
        """Return the configuration file's content for the ConfigMap, in the plugin's keys."""
        document = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if not document["sharing"]:
            del document["sharing"]
        return document

    def offered(self, resource: str, devices: int) -> tuple[str, int]:
        """Return the resource name under which the plugin advertises devices, and their amount.

        Time-slicing can rename a resource, and multiplies its devices.
        """
        shared = self.sharing.replicated
        for share in shared.resources if shared else ():
            if shared and share.resource == resource:
                name = resource + (SHARED if shared.rename_by_default else "")
                return name, devices * share.replicas
        return resource, devices
