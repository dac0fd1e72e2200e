"""Names of hosts in a state, and the order in which outputs name them."""

from __future__ import annotations

from gpu_cluster.hosts.prepared import COMMAND, preparation_of, prepared_hosts


def test_hosts_of_a_state_are_in_natural_order() -> None:
    hosts = ("gpu-10", "gpu-9", "gpu-1")
    names = [f"{COMMAND}::{preparation_of('site')}-{host}" for host in hosts]
    assert prepared_hosts("site", [*names, f"{COMMAND}::other-gpu-2"]) == (
        "gpu-1",
        "gpu-9",
        "gpu-10",
    )
