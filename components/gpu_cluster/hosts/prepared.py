"""Names in a Pulumi state of the Commands that prepare hosts."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_cluster.settings.nodes.node_range import natural_order

COMMAND = "command:remote:Command"


def preparation_of(cluster: str) -> str:
    """Return the name of the component that prepares the hosts of a `GpuCluster`.

    The names of its Commands are this name, a hyphen and the host's name.
    """
    return f"{cluster}-host-preparation"


def prepared_hosts(cluster: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the hosts whose preparation a stack's state records, in natural order.

    Args:
        cluster: Name of the component `GpuCluster`.
        names: Type and name (`type::name`) of each resource in the state.
    """
    start = f"{COMMAND}::{preparation_of(cluster)}-"
    hosts = (name.removeprefix(start) for name in names if name.startswith(start))
    return tuple(sorted(hosts, key=natural_order))


def typed_name(urn: str) -> str:
    """Return the type and name (`type::name`) of a resource, without the types of its parents."""
    *_, types, name = str(urn).split("::", 3)
    return f"{types.rpartition('$')[2]}::{name}"
