"""Which names of resources mean GPUs, and which of them count devices."""

from __future__ import annotations

import pytest

from gpu_rules.kube.gpu_resources import is_gpu_device, is_gpu_resource, is_vcuda


@pytest.mark.parametrize(
    ("name", "of_gpus", "device"),
    [
        ("nvidia.com/gpu", True, True),
        ("nvidia.com/gpu.shared", True, True),
        ("nvidia.com/mig-1g.5gb", True, True),
        ("nvidia.com/mig-1g.5gb.shared", True, True),
        ("nvidia.com/pgpu", True, True),
        ("amd.com/gpu", True, True),
        ("tencent.com/vcuda-core", True, False),
        ("tencent.com/vcuda-memory", True, False),
        ("nvidia.com/gpumem", True, False),
        ("aliyun.com/gpu-mem", True, False),
        ("gpu.nvidia.com", False, False),
        ("nvidia.com/hostdev", False, False),
        ("rdma/hca", False, False),
        ("cpu", False, False),
    ],
)
def test_names(name: str, of_gpus: bool, device: bool) -> None:
    assert is_gpu_resource(name) is of_gpus
    assert is_gpu_device(name) is device


def test_resources_of_gpu_manager() -> None:
    names = ("tencent.com/vcuda-core", "tencent.com/vcuda-memory", "nvidia.com/gpu")
    assert [is_vcuda(name) for name in names] == [True, True, False]
