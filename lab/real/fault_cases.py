"""Real counterparts of the simulator's faults of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gpu_cluster_lab.simulator import faults

CAUSES = "tests/proofs/real/test_causes.py"
COUNTERPARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        faults.DRIVER_MISSING: (
            "without a driver the plugin's status names NVML's error",
            "without a driver none is to have",
        ),
        faults.RUNTIME_NOT_CONFIGURED: (
            f"{CAUSES}::test_a_fault_of_the_runtime_is_that_of_a_real_kubelet",
        ),
        faults.UNHEALTHY_GPUS: (
            "a critical XID takes one GPU from allocatable",
            "the plugin names the withdrawn device",
        ),
        faults.VALIDATION_FAILS: ("where no GPU computes all containers fail",),
        faults.VALIDATION_SILENT: ("a kernel that says nothing proves nothing",),
        faults.KERNEL_FAILS: (
            "a kernel that fails on one GPU names it, the exit code and the last line",
            "its container alone has failed",
        ),
        faults.SLOW: ("a kernel that takes too long fails the node",),
        faults.FIGURE: ("a slow GPU is below the test's minimum, which is named",),
    }
)
"""Cases, or tests, that compare a fault of the simulator with the real part that it plays."""

UNSEEN: Mapping[str, str] = MappingProxyType(
    {
        faults.DRIVER_ALREADY_LOADED: (
            "only a kernel that has loaded NVIDIA's module makes NVIDIA's installer print this line"
        )
    }
)
"""Why a fault of the simulator has no real counterpart here."""
