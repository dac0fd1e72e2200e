"""Where a chart comes from: its repository, or a folder that holds charts by name."""

from __future__ import annotations

import os
from typing import Any

import config

REPOSITORIES = {
    # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator, "Install NVIDIA GPU Operator"
    "gpu-operator": "https://helm.ngc.nvidia.com/nvidia",
    # https://github.com/NVIDIA/k8s-device-plugin, README "Deployment via helm"
    "nvidia-device-plugin": "https://nvidia.github.io/k8s-device-plugin",
}


def chart_arguments(charts: config.Charts, chart: str, version: str) -> dict[str, Any]:
    """Inputs of a ``Release`` that say which chart it installs.

    Args:
        charts: ``directory`` of the stack file; `GPU_CHARTS` in the environment goes before it, so
            that one stack can be tried on other charts without an edit.
        chart: name of the chart, a key of `REPOSITORIES`.
        version: version of the chart.
    """
    directory = os.environ.get("GPU_CHARTS") or charts.directory
    if directory:
        return {"chart": f"{directory.rstrip('/')}/{chart}"}
    return {
        "chart": chart,
        "version": version,
        "repositoryOpts": {"repo": REPOSITORIES[chart]},
    }
