"""One platform's release follows another's: never two of them at once.

The engine creates before it deletes, so two platforms would serve the same GPUs for a while. All
platforms' releases are therefore one resource to the engine: each release bears the addresses of
the others as aliases, and is deleted before it is replaced.
"""

from __future__ import annotations

import pulumi

_OWNER = "gpucluster:index:GpuCluster"

#: Component and name of each platform, as `GpuCluster` makes them.
PLATFORMS = {
    "nvidia-device-plugin": ("gpucluster:index:DevicePlugin", "plugin"),
    "gpu-operator": ("gpucluster:index:GpuOperator", "operator"),
    "gpu-manager": ("gpucluster:index:GpuManager", "manager"),
    "nvidia-dra-driver-gpu": ("gpucluster:index:DraDriver", "dra"),
}


def other_releases(chart: str, root: str = "gpu-cluster") -> list[pulumi.Input[str | pulumi.Alias]]:
    """Addresses (URNs) of the releases that may stand where this chart's is to stand.

    Args:
        chart: name of the chart, a key of `PLATFORMS`.
        root: name of the `GpuCluster`.
    """
    if chart not in PLATFORMS:
        return []
    start = f"urn:pulumi:{pulumi.get_stack()}::{pulumi.get_project()}::{_OWNER}"
    return [
        f"{start}${component}$kubernetes:helm.sh/v3:Release::{root}-{name}-release"
        for other, (component, name) in PLATFORMS.items()
        if other != chart
    ]
