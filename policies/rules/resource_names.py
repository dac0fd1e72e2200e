"""Names of extended resources, and which of them stand for GPUs."""

from __future__ import annotations

import difflib
from typing import Final

from policies.rules.context import Context

GPU: Final = "nvidia.com/gpu"
GPU_SHARED: Final = "nvidia.com/gpu.shared"
VCUDA_CORE: Final = "tencent.com/vcuda-core"
VCUDA_MEMORY: Final = "tencent.com/vcuda-memory"

# NVIDIA k8s-device-plugin, TKEStack gpu-manager pkg/types, HAMi pkg/device/nvidia, AMD and Intel
# device plugins.
KNOWN: Final = frozenset(
    {
        GPU,
        GPU_SHARED,
        VCUDA_CORE,
        VCUDA_MEMORY,
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
    }
)
_MIG = "nvidia.com/mig-"
_WRONG = {
    "alpha.kubernetes.io/nvidia-gpu": GPU,
    "nvidia.com/gpus": GPU,
    "nvidia.com/gpu-shared": GPU_SHARED,
    "nvidia.com/gpu_shared": GPU_SHARED,
    "tencent.com/vcuda-cores": VCUDA_CORE,
    "tencent.com/vcuda-mem": VCUDA_MEMORY,
    "gpu": GPU,
    "gpus": GPU,
    "nvidia": GPU,
    "nvidia-gpu": GPU,
    "nvidia.com": GPU,
}


def is_extended(name: str) -> bool:
    """Whether the API server treats `name` as an extended resource.

    Source: kubernetes v1.34.4 pkg/apis/core/helper/helpers.go IsExtendedResourceName and
    IsNativeResource (which looks for `kubernetes.io/` anywhere in the name).
    """
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def is_gpu(name: str, context: Context) -> bool:
    """Whether `name` is a GPU resource: a well-known one or one that the cluster advertises."""
    return name in KNOWN or name.startswith(_MIG) or name in context.resource_names


def is_vcuda(name: str) -> bool:
    """Whether `name` is a resource of TKEStack's gpu-manager."""
    return name in (VCUDA_CORE, VCUDA_MEMORY)


def meant(name: str, context: Context) -> str | None:
    """The GPU resource that a wrong `name` was meant to be; `None` if nothing speaks for one.

    Wrong is what no device plugin advertises: the alpha name of Kubernetes 1.3 to 1.10, names
    that differ from a known one in case only or by a known slip, known names under a domain one
    or two letters off, and the `requests.` or `limits.` of quotas used in a container.
    """
    if is_gpu(name, context):
        return None
    lower = name.lower().removeprefix("requests.").removeprefix("limits.")
    if lower in _WRONG:
        return _WRONG[lower]
    if is_gpu(lower, context):
        return lower
    domain, _, local = lower.replace(".com.", ".com/", 1).rpartition("/")
    for right in difflib.get_close_matches(domain, ("nvidia.com", "tencent.com"), 1, 0.8):
        candidate = f"{right}/{local}"
        if is_gpu(candidate, context):
            return candidate
    return None
