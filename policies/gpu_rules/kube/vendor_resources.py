"""Resources and DeviceClasses of the vendors of GPUs and other accelerators, with their sources.

The rules judge GPUs. Accelerators of other kinds, such as TPUs and NPUs, are only known by name: a
pod that requests one is listed as not judged, and never passes in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Vendor:
    """The names under which one vendor's devices are advertised.

    Attributes:
        name: Name of the vendor.
        source: Where the names are from: repository, commit or version, and path.
        read: Date on which the source was read.
        devices: Resources of GPUs, of which one unit is a device or a share of a device.
        parts: Resources of GPUs, of which one unit is not a device but memory or cores.
        classes: DeviceClasses (DRA) of the vendor's driver.
        unjudged: Pattern of resources that the rules don't judge, in lower case.
        why: Why the rules don't judge these.
    """

    name: str
    source: str
    read: str
    devices: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    unjudged: str = ""
    why: str = "no GPU"


_HAMI: Final = (
    "Project-HAMi/HAMi 4707fb02 charts/hami/values.yaml, "
    "charts/hami/templates/scheduler/device-configmap.yaml"
)
_READ: Final = "2026-11-29"
_AMD_FORMS: Final = ("spx", "dpx", "tpx", "qpx", "cpx")
_ILUVATAR: Final = ("BI-V100", "BI-V150", "MR-V100", "MR-V50")

VENDORS: Final = (
    Vendor(
        "AMD",
        "ROCm/k8s-device-plugin ed764684 docs/user-guide/configuration.md (resources of "
        f"partitions, with resource_naming_strategy mixed); {_HAMI}",
        _READ,
        devices=(
            "amd.com/gpu",
            *(f"amd.com/{form}_nps{memory}" for form in _AMD_FORMS for memory in (1, 2, 4, 8)),
        ),
        parts=("amd.com/gpucores", "amd.com/gpumem"),
        classes=("gpu.amd.com",),
    ),
    Vendor(
        "Intel",
        "intel/intel-device-plugins-for-kubernetes 94a91bc9 cmd/gpu_plugin; "
        "intel/intel-resource-drivers-for-kubernetes 1da939fa deployments/gpu/base",
        _READ,
        devices=("gpu.intel.com/i915", "gpu.intel.com/xe", "gpu.intel.com/dxg"),
        parts=("gpu.intel.com/millicores", "gpu.intel.com/memory.max", "gpu.intel.com/tiles"),
        classes=("gpu.intel.com", "gpu-vfio.intel.com"),
        unjudged=r"gpu\.intel\.com/.*monitoring|intel\.com/gpu",
        why="all GPUs of a node, for monitoring, or a name that no plugin of today advertises",
    ),
    Vendor(
        "Intel Gaudi (Habana)",
        "docs.habana.ai Intel_Gaudi_Kubernetes_Device_Plugin; "
        "intel/intel-resource-drivers-for-kubernetes 1da939fa deployments/gaudi/base",
        _READ,
        classes=("gaudi.intel.com",),
        unjudged=r"habana\.ai/.*",
    ),
    Vendor(
        "Huawei Ascend",
        "hiascend.com MindCluster 7.3.0 dlruntime_ug_005 (huawei.com/Ascend910); "
        f"volcano-sh/volcano ed72c7c8 docs/user-guide/how_to_use_vnpu.md; {_HAMI}",
        _READ,
        unjudged=r"huawei\.com/(ascend|npu).*",
    ),
    Vendor(
        "Cambricon",
        "Cambricon/cambricon-k8s-device-plugin 779c64a5 device-plugin/README.md "
        f"(cambricon.com/mlu); {_HAMI}",
        _READ,
        unjudged=r"cambricon\.com/.*",
    ),
    Vendor("Hygon", _HAMI, _READ, unjudged=r"hygon\.com/.*", why="a DCU, which is not seen as GPU"),
    Vendor(
        "Enflame",
        "EnflameTechnology/gcushare fd64b389 gcushare-device-plugin/pkg/consts/const.go "
        f"(enflame.com/shared-gcu, enflame.com/drs-gcu); {_HAMI}",
        _READ,
        unjudged=r"enflame\.com/.*",
    ),
    Vendor(
        "Iluvatar",
        f"Deep-Spark/ix-device-plugin v4.3.0 README.md (iluvatar.com/gpu) and v1.0.0 README.md "
        f"(iluvatar.ai/gpu); {_HAMI}",
        _READ,
        devices=(
            *("iluvatar.com/gpu", "iluvatar.ai/gpu"),
            *(f"iluvatar.ai/{model}-vgpu" for model in _ILUVATAR),
        ),
        parts=tuple(
            f"iluvatar.ai/{model}.{part}" for model in _ILUVATAR for part in ("vMem", "vCore")
        ),
        unjudged=r"iluvatar\.(com|ai)/.*",
        why="a name that the sources don't have",
    ),
    Vendor(
        "Moore Threads",
        "notes of Moore Threads' GPU Operator and device plugin (mthreads.com/gpu); "
        f"Project-HAMi/HAMi 4707fb02 pkg/device/mthreads/device.go; {_HAMI}",
        _READ,
        devices=("mthreads.com/gpu", "mthreads.com/vgpu"),
        parts=("mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
        unjudged=r"mthreads\.com/.*",
        why="a name that the sources don't have",
    ),
    Vendor(
        "MetaX",
        f"Project-HAMi/HAMi 4707fb02 examples/metax; {_HAMI}",
        _READ,
        devices=("metax-tech.com/gpu", "metax-tech.com/sgpu"),
        parts=("metax-tech.com/vcore", "metax-tech.com/vmemory"),
        unjudged=r"metax-tech\.com/.*",
        why="a name that the sources don't have",
    ),
    Vendor("Biren", _HAMI, _READ, devices=("birentech.com/gpu",)),
    Vendor(
        "Google TPU",
        "kubernetes-sigs/lws 060ab4da config/samples/leaderworkerset_tpu.yaml; ray-project/kuberay "
        "feeaf72f ray-operator/config/samples/ray-cluster.tpu-v4-singlehost.yaml",
        _READ,
        classes=("tpu.google.com",),
        unjudged=r"(cloud\.)?google\.com/tpu.*",
    ),
    Vendor(
        "AWS Neuron",
        "AWS Neuron documentation v2.31.0 deploy/eks/setup (aws.amazon.com/neuroncore, "
        "aws.amazon.com/neuron) and v1.12.0 containers/kubernetes-getting-started "
        "(aws.amazon.com/neurondevice)",
        _READ,
        unjudged=r"aws\.amazon\.com/neuron.*",
    ),
    Vendor("Kunlunxin", _HAMI, _READ, unjudged=r"kunlunxin\.com/.*"),
    Vendor("Vastai", _HAMI, _READ, unjudged=r"vastaitech\.com/.*"),
)


def vendor_of(name: str) -> Vendor | None:
    """Return the vendor of a resource that the rules don't check, or None for any other name."""
    matches = (each for each in VENDORS if re.fullmatch(each.unjudged or "(?!)", name.lower()))
    return next(matches, None)
