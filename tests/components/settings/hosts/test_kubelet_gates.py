"""Feature gates that Kubernetes removed."""

from __future__ import annotations

import pytest

from gpu_cluster.settings.hosts.kubelet_gates import REMOVED, removed


@pytest.mark.parametrize(
    ("minor", "found"),
    [
        (34, []),
        (35, ["PodIndexLabel"]),
        (36, ["MemoryManager", "PodIndexLabel"]),
        (37, ["MemoryManager", "PodIndexLabel", "SidecarContainers"]),
        (38, ["MemoryManager", "PodIndexLabel", "SidecarContainers"]),
    ],
)
def test_a_removed_gate_stays_removed_in_later_versions(minor: int, found: list[str]) -> None:
    given = ["SidecarContainers", "PodIndexLabel", "MemoryManager", "DynamicResourceAllocation"]
    assert removed(given, minor) == found


def test_no_gate_is_removed_twice() -> None:
    every = [gate for gates in REMOVED.values() for gate in gates]
    assert len(every) == len(set(every))
