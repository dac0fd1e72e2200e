"""Settings of a device plugin pod, and the configuration that the plugin has loaded.

All functions are pure. Source: NVIDIA/k8s-device-plugin v0.20.0: api/config/v1 (configuration
file), internal/rm (resources).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpu_cluster_lab.simulator import marks, stages
from gpu_cluster_lab.simulator.api import Json
from gpu_cluster_lab.simulator.controller.devices import Resources

#: Node label that names the node's device plugin configuration (config-manager's NODE_LABEL).
CONFIG_LABEL = "nvidia.com/device-plugin.config"


@dataclass(frozen=True)
class Plugin:
    """Settings of a device plugin pod.

    Attributes:
        visible: Indexes of the GPUs that the container sees; None for all GPUs of the node.
        config_map: Namespace and name of the ConfigMap with the configurations, or None.
        file: Key in the ConfigMap that applies if the node's label names no configuration.
        strategy: MIG strategy in the container's environment, which overrides the file; may be
            empty.
        is_hami: True for HAMi's device plugin.
        exclusions: Namespace and name of the ConfigMap with the GPUs that HAMi leaves out.
        hidden: Indexes of the GPUs that HAMi's configuration leaves out, by node.
    """

    visible: tuple[int, ...] | None = None
    config_map: tuple[str, str] | None = None
    file: str = ""
    strategy: str = ""
    is_hami: bool = False
    exclusions: tuple[str, str] | None = None
    hidden: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def read_plugin(item: Json) -> Plugin:
    """Read the settings of a device plugin pod from its container and volumes."""
    spec = item["spec"]
    containers = {container["name"]: container for container in spec["containers"]}
    plugin_container = containers.get("nvidia-device-plugin-ctr") or containers.get(
        "nvidia-device-plugin"
    )
    labels = item["metadata"].get("labels") or {}
    if labels.get(stages.HAMI_KEY) == stages.HAMI:
        namespace = item["metadata"]["namespace"]
        names = {
            volume["name"]: volume["configMap"]["name"]
            for volume in spec.get("volumes") or []
            if "configMap" in volume
        }
        return Plugin(
            config_map=(namespace, names["device-config"]),
            exclusions=(namespace, names["deviceconfig"]),
            file="device-config.yaml",
            is_hami=True,
        )
    if plugin_container is None:
        return Plugin()  # A container toolkit pod has no device plugin container.
    environment = {
        variable["name"]: variable.get("value", "")
        for container in (plugin_container, *containers.values())
        for variable in container.get("env") or []
    }
    maps = [
        volume["configMap"]["name"]
        for volume in spec.get("volumes") or []
        # Skip the entrypoint script, which the GPU Operator also mounts from a ConfigMap
        # (assets/state-device-plugin).
        if "configMap" in volume and not volume["configMap"]["name"].endswith("-entrypoint")
    ]
    fixed = environment.get("CONFIG_FILE", "").removeprefix("/config/")
    return Plugin(
        visible=_visible_indexes(environment.get("NVIDIA_VISIBLE_DEVICES", "all")),
        config_map=(item["metadata"]["namespace"], maps[0]) if maps else None,
        file=fixed if fixed not in ("", "config.yaml") else environment.get("DEFAULT_CONFIG", ""),
        strategy=environment.get("MIG_STRATEGY", ""),
    )


def _visible_indexes(listed: str) -> tuple[int, ...] | None:
    """Return the indexes of the GPUs that a container sees; None means all GPUs.

    The values `void` and `none` mean no GPU.
    """
    if listed == "all":
        return None
    return tuple(int(name) for name in listed.split(",") if name.isdigit())


def chosen(plugin: Plugin, label: str, data: Mapping[str, str]) -> Json:
    """Return the device plugin configuration of a node; {} if the configuration is invalid.

    If the label names an unknown configuration, the default applies (config-manager keeps the
    current configuration).
    """
    text = data.get(label) or data.get(plugin.file) or ""
    document: Any = yaml.safe_load(text)
    if not isinstance(document, dict):
        return {}
    if plugin.is_hami:
        # HAMi's plugin registers each GPU several times, as NVIDIA's does for time slicing.
        split = int((document.get("nvidia") or {}).get("deviceSplitCount", 1))
        shared = {"resources": [{"name": marks.GPU, "replicas": split}]}
        document["sharing"] = {"timeSlicing": shared}
    return document


def hidden_gpus(text: str) -> dict[str, tuple[int, ...]]:
    """Return the indexes of the GPUs that HAMi's file config.json leaves out, by node.

    Source: HAMi v2.10.0, nvinternal/plugin/server.go, readFromConfigFile.
    """
    document = json.loads(text or "{}")
    return {
        entry["name"]: tuple((entry.get("filterdevices") or {}).get("index") or ())
        for entry in document.get("nodeconfig") or ()
    }


class Configurations:
    """Configurations that running device plugins have loaded, by pod UID.

    A changed ConfigMap has no effect by itself: the plugin reads its file when it starts.
    config-manager restarts the plugin if the node's label changes, but not if the content changes
    (k8s-device-plugin v0.19.3, cmd/config-manager/main.go, continuouslySyncConfigChanges and
    updateSymlink).
    """

    def __init__(self) -> None:
        """Start without any loaded configurations."""
        self._read: dict[str, tuple[str, Json]] = {}

    def of(self, uid: str, plugin: Plugin, label: str, data: Mapping[str, str]) -> Json:
        """Return the configuration that a device plugin pod has loaded.

        Args:
            uid: UID of the plugin's pod.
            plugin: Settings of that pod.
            label: Value of the node's label, which names a configuration.
            data: Current content of the ConfigMap; empty if the ConfigMap isn't known yet.
        """
        label_and_file = self._read.get(uid)
        if data and (label_and_file is None or label_and_file[0] != label):
            label_and_file = self._read[uid] = label, chosen(plugin, label, data)
        return label_and_file[1] if label_and_file else {}

    def forget(self, uid: str) -> None:
        """Forget the loaded configuration of a deleted pod."""
        self._read.pop(uid, None)


def owned(resources: Mapping[str, Any] | None) -> Resources:
    """Return those resources of a node that NVIDIA's device plugin advertises."""
    return {
        name: int(value)
        for name, value in (resources or {}).items()
        if name == marks.GPU or name.startswith((f"{marks.GPU}.", "nvidia.com/mig-"))
    }
