"""Values of the chart ``nvidia-device-plugin``.

Value paths: NVIDIA/k8s-device-plugin v0.20.0, deployments/helm/nvidia-device-plugin/values.yaml.
"""

from __future__ import annotations

from typing import Any

import config

from ..pools import gpu_pools, tolerations

CONFIG_MAP = "nvidia-plugin-configs"
CONFIG_KEY = "config"
RUNTIME_CLASS = "nvidia"


def values(cluster: config.Cluster, plugin: config.DevicePlugin) -> dict[str, Any]:
    """Helm values for a configuration.

    The plugin's own settings are all in the ConfigMap: chart values become arguments and
    environment of the plugin, which go before its file (api/config/v1, "precedence").
    """
    result: dict[str, Any] = {
        "config": {"name": CONFIG_MAP, "default": CONFIG_KEY},
        "gfd": {"enabled": plugin.gfd},
        "tolerations": [
            {"key": "CriticalAddonsOnly", "operator": "Exists"},
            *tolerations(gpu_pools(cluster)),
        ],
    }
    if cluster.runtime.default_runtime is not config.DefaultRuntime.NVIDIA:
        result["runtimeClassName"] = RUNTIME_CLASS
    return result
