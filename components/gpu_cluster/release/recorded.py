"""Names in a Pulumi state of the Helm release of a platform."""

from __future__ import annotations

from collections.abc import Collection

RELEASE = "kubernetes:helm.sh/v3:Release"


def platform_of(cluster: str) -> str:
    """Return the name of the component that installs the platform of a `GpuCluster`."""
    return f"{cluster}-gpu-platform"


def release_of(platform: str) -> str:
    """Return the name of the resource of a platform's Helm release."""
    return f"{platform}-release"


def has_release(cluster: str, names: Collection[str]) -> bool:
    """Return whether a stack's state records the Helm release of a `GpuCluster`.

    Args:
        cluster: Name of the component `GpuCluster`.
        names: Type and name (`type::name`) of each resource in the state.
    """
    return f"{RELEASE}::{release_of(platform_of(cluster))}" in names
