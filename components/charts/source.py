"""Where a chart comes from: its repository, or a folder that holds charts by name."""

from __future__ import annotations

import os
from typing import Any

from components.charts.settings import Charts

REPOSITORIES = {
    # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator, "Install NVIDIA GPU Operator"
    "gpu-operator": "https://helm.ngc.nvidia.com/nvidia",
    # https://github.com/NVIDIA/k8s-device-plugin, README "Deployment via helm"
    "nvidia-device-plugin": "https://nvidia.github.io/k8s-device-plugin",
    "nvidia-dra-driver-gpu": "https://helm.ngc.nvidia.com/nvidia",
}

#: Charts of the project's own, for software that is published without one.
OWN = {"gpu-manager": "./components/platforms/gpu_manager/chart"}


def location(charts: Charts, chart: str) -> str:
    """Where a chart comes from: a folder, an OCI reference or the address of a repository.

    Args:
        charts: of the stack file; `GPU_CHARTS` in the environment goes before its ``directory``
            and ``oci``, so that one stack can be tried on other charts without an edit.
        chart: name of the chart, a key of `REPOSITORIES` or `OWN`.
    """
    if chart in OWN:
        return OWN[chart]
    directory = os.environ.get("GPU_CHARTS") or charts.directory
    if directory:
        # Without the dot Helm and the rules would take `folder/chart` for a repository's chart.
        start = "" if directory.startswith(("/", "./", "../", "~")) else "./"
        return f"{start}{directory.rstrip('/')}/{chart}"
    return f"{charts.oci}/{chart}" if charts.oci else REPOSITORIES[chart]


def chart_arguments(charts: Charts, chart: str, version: str) -> dict[str, Any]:
    """Arguments of a ``Release`` that say which chart it installs, at which version."""
    place = location(charts, chart)
    if place == REPOSITORIES.get(chart):
        return {"chart": chart, "version": version, "repository_opts": {"repo": place}}
    return {"chart": place, **({"version": version} if place.startswith("oci://") else {})}
