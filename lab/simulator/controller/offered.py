"""How a device plugin's pod is set up, and which resources are its own. Pure functions.

NVIDIA/k8s-device-plugin v0.20.0: api/config/v1 (configuration file), internal/rm (resources).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from lab.simulator import marks
from lab.simulator.api import Json
from lab.simulator.controller.devices import Resources

#: On a node: which configuration it gets (config-manager's NODE_LABEL).
CONFIG_LABEL = "nvidia.com/device-plugin.config"


@dataclass(frozen=True)
class Plugin:
    """How a plugin's pod is set up.

    Attributes:
        visible: indexes of the GPUs that its container sees; None: all of the node.
        config_map: namespace and name of its configurations; None: none.
        file: the key in it where the node's label names none.
        strategy: the MIG strategy of its environment, which stands above the file; empty: none.
    """

    visible: tuple[int, ...] | None = None
    config_map: tuple[str, str] | None = None
    file: str = ""
    strategy: str = ""


def read_plugin(item: Json) -> Plugin:
    """How the plugin of a pod is set up, from its container and volumes."""
    spec = item["spec"]
    containers = {container["name"]: container for container in spec["containers"]}
    own = containers.get("nvidia-device-plugin-ctr") or containers.get("nvidia-device-plugin")
    if own is None:
        return Plugin()  # the toolkit's pod, whose container sees "void"
    environment = {
        variable["name"]: variable.get("value", "")
        for container in (own, *containers.values())
        for variable in container.get("env") or []
    }
    maps = [
        volume["configMap"]["name"]
        for volume in spec.get("volumes") or []
        # The operator mounts a script from one, too (assets/state-device-plugin).
        if "configMap" in volume and not volume["configMap"]["name"].endswith("-entrypoint")
    ]
    fixed = environment.get("CONFIG_FILE", "").removeprefix("/config/")
    return Plugin(
        visible=_visible(environment.get("NVIDIA_VISIBLE_DEVICES", "all")),
        config_map=(item["metadata"]["namespace"], maps[0]) if maps else None,
        file=fixed if fixed not in ("", "config.yaml") else environment.get("DEFAULT_CONFIG", ""),
        strategy=environment.get("MIG_STRATEGY", ""),
    )


def _visible(listed: str) -> tuple[int, ...] | None:
    """Indexes of GPUs that a container sees; `void` and `none` are none of them."""
    if listed == "all":
        return None
    return tuple(int(name) for name in listed.split(",") if name.isdigit())


def chosen(plugin: Plugin, label: str, data: Mapping[str, str]) -> Json:
    """The configuration of a node; one that can't be read counts as none, as to a crashed plugin.

    A label with an unknown name leaves the default (config-manager keeps what it has).
    """
    text = data.get(label) or data.get(plugin.file) or ""
    document: Any = yaml.safe_load(text)
    return document if isinstance(document, dict) else {}


class Configurations:
    """What each plugin has read: a changed ConfigMap alone changes nothing.

    The plugin reads its file when it starts; config-manager starts it anew for another label of the
    node, not for other contents (k8s-device-plugin v0.19.3, cmd/config-manager/main.go,
    continuouslySyncConfigChanges and updateSymlink).
    """

    def __init__(self) -> None:
        self._read: dict[str, tuple[str, Json]] = {}

    def of(self, uid: str, plugin: Plugin, label: str, data: Mapping[str, str]) -> Json:
        """The configuration that a plugin works by.

        Args:
            uid: of its pod.
            plugin: how the pod is set up.
            label: the node's, which names a configuration.
            data: the ConfigMap as it is now; empty: it isn't known yet.
        """
        known = self._read.get(uid)
        if data and (known is None or known[0] != label):
            known = self._read[uid] = label, chosen(plugin, label, data)
        return known[1] if known else {}

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._read.pop(uid, None)


def owned(resources: Mapping[str, Any] | None) -> Resources:
    """Those of a node's resources that a device plugin of NVIDIA's offers."""
    return {
        name: int(value)
        for name, value in (resources or {}).items()
        if name == marks.GPU or name.startswith((f"{marks.GPU}.", "nvidia.com/mig-"))
    }
