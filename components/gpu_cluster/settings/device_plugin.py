"""Section `devicePlugin` of the stack file: NVIDIA's device plugin and its configuration files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictStr

from gpu_cluster.base.model import Freeze, FrozenDict, Model
from gpu_cluster.base.names import ConfigName, OwnNamespace
from gpu_cluster.charts.extra_values import ExtraValues, Resources
from gpu_cluster.charts.version import UnknownVersion, chart_version
from gpu_cluster.settings.plugin_configuration import DevicePluginConfig

# Node label that holds the name of the node's plugin configuration (chart 0.20.0, NODE_LABEL of
# its config-manager).
CONFIG_LABEL = "nvidia.com/device-plugin.config"
# Key of the default configuration in the plugin's ConfigMap.
DEFAULT_CONFIG = "config"


class Presence(StrEnum):
    """Source of the label on GPU nodes; the chart's DaemonSet runs only on labeled nodes."""

    LABEL = "label"
    NFD = "nfd"
    EXISTING_NFD = "existing-nfd"


class PluginFiles(Model):
    """Configuration files of a device plugin: a default file, and files that node labels select."""

    config: DevicePluginConfig = Field(
        default=DevicePluginConfig(),
        description="a mapping: the plugin's configuration file, version v1",
    )
    configs: Annotated[dict[ConfigName, DevicePluginConfig], Freeze] = Field(
        default=FrozenDict(),
        description="a mapping of names to configuration files",
        examples=["{small: {version: v1}}"],
    )

    def config_named(self, name: str | None) -> DevicePluginConfig:
        """Return the configuration for a node's label value, or the default configuration."""
        return self.configs.get(name or "", self.config)

    def files(self) -> dict[str, dict[str, Any]]:
        """Return the content of every configuration file by its key in the ConfigMap."""
        named_files = {name: file.document() for name, file in self.configs.items()}
        return {DEFAULT_CONFIG: self.config.document(), **named_files}


class DevicePluginSettings(PluginFiles):
    """The Helm release of NVIDIA's device plugin.

    `config` applies to every node, except the nodes of a pool whose label
    `nvidia.com/device-plugin.config` names an entry of `configs`. `gfd` also installs GPU feature
    discovery, which passes its labels to Node Feature Discovery (NFD). `presence` selects what
    labels the GPU nodes: `label` (this program), `nfd` (the NFD that the chart installs) or
    `existing-nfd` (an NFD that already runs in the cluster).
    """

    unknown_version: UnknownVersion = False
    version: Annotated[
        StrictStr, AfterValidator(chart_version("nvidia-device-plugin", "0.20.1"))
    ] = Field(default="0.20.1", description="a chart version such as 0.20.1", examples=["0.20.1"])
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
        default=FrozenDict(),
        description="a mapping of the chart's own values",
        examples=["{priorityClassName: system-node-critical}"],
    )
