"""GPUs of a node or pod are counted once, by the resources that count devices."""

from __future__ import annotations

import pytest

from gpu_cluster.kubernetes.resources import counts_gpus


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.5gb.shared", True),
        ("amd.com/gpu", True),
        ("tencent.com/vcuda-core", True),
        ("gpu.nvidia.com", True),
        ("tencent.com/vcuda-memory", False),
        ("nvidia.com/gpumem", False),
        ("nvidia.com/hostdev", False),
    ],
)
def test_memory_and_cores_of_a_gpu_are_not_counted_beside_it(name: str, counted: bool) -> None:
    assert counts_gpus(name) is counted
