"""How what a node offers differs from what is declared. Pure functions."""

from __future__ import annotations

from components.kubernetes.api import Json
from components.kubernetes.resources import GPU
from components.nodes.inspect import gpus as offered


def shortfall(node: Json, gpus: int, resources: dict[str, int]) -> str:
    """How what a node offers differs from what is declared; empty when they agree.

    ``resources``: the count of each resource; of ``nvidia.com/gpu`` it is ``gpus``, unless the
    GPUs are shared or divided.
    """
    differences = (_difference(node, name, count, gpus) for name, count in resources.items())
    return "; ".join(filter(None, differences))


def _difference(node: Json, resource: str, declared: int, gpus: int) -> str:
    allocatable = offered(node, resource=resource)
    capacity = offered(node, "capacity", resource)
    if allocatable == declared == capacity:
        return ""
    what = "GPUs" if (resource, declared) == (GPU, gpus) else resource
    difference = f"{allocatable} of {declared} {what} allocatable"
    if capacity > allocatable:
        return (
            f"{difference} (capacity {capacity}: {capacity - allocatable} unhealthy or withdrawn)"
        )
    return difference
