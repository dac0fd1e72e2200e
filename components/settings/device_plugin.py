"""NVIDIA's device plugin: its chart, and which configuration each node gets."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from components.base.model import Freeze, FrozenDict, Model
from components.base.names import ConfigName, OwnNamespace
from components.charts.extra_values import ExtraValues, Resources
from components.charts.version import chart_version
from components.settings.plugin_configuration import DevicePluginConfig

#: On a node: the name of its configuration (chart 0.20.0, config-manager's NODE_LABEL).
CONFIG_LABEL = "nvidia.com/device-plugin.config"
#: The key of the default configuration in the ConfigMap.
DEFAULT_CONFIG = "config"


class Presence(StrEnum):
    """Who says that a node has GPUs; without it the chart's DaemonSet runs nowhere."""

    LABEL = "label"
    NFD = "nfd"
    EXISTING_NFD = "existing-nfd"


class PluginFiles(Model):
    """Configuration files of a device plugin: every node's, and those that labels name."""

    config: DevicePluginConfig = Field(
        default=DevicePluginConfig(),
        description="a mapping: the plugin's configuration file, version v1",
    )
    configs: Annotated[dict[ConfigName, DevicePluginConfig], Freeze] = Field(
        default=FrozenDict(), description="a mapping of names to configuration files"
    )

    def config_named(self, name: str | None) -> DevicePluginConfig:
        """The configuration of a node with this label value, the default one without."""
        return self.configs.get(name or "", self.config)

    def files(self) -> dict[str, dict[str, Any]]:
        """Every configuration by its key in the ConfigMap."""
        named = {name: file.document() for name, file in self.configs.items()}
        return {DEFAULT_CONFIG: self.config.document(), **named}


class DevicePluginSettings(PluginFiles):
    """The Helm release.

    `config` is every node's configuration but for those whose pool carries the label
    `nvidia.com/device-plugin.config` with a name of `configs`. `gfd` adds GPU feature discovery,
    which hands its labels to Node Feature Discovery. `presence`: `label`, our own label;
    `nfd`, the chart's Node Feature Discovery; `existing-nfd`, one that is there already.
    """

    version: Annotated[
        StrictStr, AfterValidator(chart_version("nvidia-device-plugin", "0.20.0"))
    ] = Field(default="0.20.0", description="a chart version such as 0.20.0", examples=["0.20.0"])
    namespace: OwnNamespace = Field(
        default="nvidia-device-plugin", description="a namespace", examples=["nvidia-device-plugin"]
    )
    gfd: StrictBool = Field(
        default=False, description="true or false: GPU feature discovery", examples=["false"]
    )
    presence: Presence = Field(
        default=Presence.LABEL, description="label, nfd or existing-nfd", examples=["label"]
    )
    resources: Resources | None = Field(
        default=None,
        description="a mapping with limits and requests",
        examples=["{limits: {memory: 100Mi}}"],
    )
    extra_values: ExtraValues = Field(
        default=FrozenDict(), description="a mapping of the chart's own values"
    )
