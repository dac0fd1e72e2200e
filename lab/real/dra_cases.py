"""Cases of NVIDIA's DRA driver: devices in ResourceSlices, claims, and validation."""

from __future__ import annotations

from lab.real.behaviours import both, gpus, heal, running, unmake
from lab.real.case import Case, Phase
from lab.real.dra import KEY, claims, kinds, published, uuids, waits
from lab.real.lab import GPUS, Lab
from lab.real.validating import awaits, broken, validates
from lab.real.validation_inspections import counts, failing, few, result

_DRIVER = "dra-driver-nvidia-gpu v0.4.1, cmd/gpu-kubelet-plugin/deviceinfo.go"
_PLUGIN = "dra-driver-nvidia-gpu v0.4.1, cmd/gpu-kubelet-plugin/device_state.go"
_SCHEDULER = "kubernetes v1.34.4, pkg/scheduler/framework/plugins/dynamicresources"
_MANAGER = "kubernetes v1.34.4, pkg/kubelet/cm/devicemanager/manager.go"
_OURS = "docs/explanation/validation.md"
_NAMES = [f"gpu-{index}" for index in range(GPUS)]


def counted(lab: Lab, node: str) -> int:
    """Return the number of GPUs of a node that are allocatable as extended resource."""
    return (gpus(lab, node) or (0, 0))[1]


PHASES = (
    Phase(
        KEY,
        (
            Case(
                "a DRA driver publishes each GPU, in a pool named as the node",
                published,
                [("gpu.nvidia.com", "NODE", name) for name in _NAMES],
                _DRIVER,
            ),
            Case(
                "each has its UUID",
                uuids,
                {name: f"GPU {index}" for index, name in enumerate(_NAMES)},
                _DRIVER,
            ),
            Case("each says what it is", kinds, {("gpu", "Ampere")}, _DRIVER),
            Case("no GPU is to have as a resource of the node", counted, 0, _MANAGER),
            Case(
                "containers get GPUs that they claim",
                running("claim"),
                ("Running", 2),
                _PLUGIN,
                claims("claim", "three", 2),
            ),
            Case(
                "a pod whose claim is too large waits",
                waits("large"),
                ("Pending", True),
                _SCHEDULER,
                claims("large", "three"),
            ),
            Case(
                "GPUs that pods claim are deferred, the others are validated",
                result(few),
                (0, 3, 5),
                _OURS,
                both(
                    both(unmake("large", "claim"), claims("some", "one", 5)),
                    both(awaits("some"), validates(platform="dra")),
                ),
            ),
            Case(
                "claimed one by one each GPU is validated, by its UUID",
                result(counts),
                (0, GPUS, 0, [f"GPU {index}" for index in range(GPUS)]),
                _OURS,
                both(unmake("some"), validates(platform="dra")),
            ),
            Case(
                "a claimed GPU whose kernel fails is named",
                failing,
                ["GPU 5"],
                _OURS,
                both(broken("kernel", 5, 0, "kernel-fails=5"), validates(platform="dra")),
            ),
        ),
    ),
    Phase(
        "",
        (Case("without a DRA driver none is published", published, [], _DRIVER, heal),),
    ),
)
