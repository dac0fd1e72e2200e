"""Cases of MIG: strategies, resources, pods, validation, and errors of the device plugin."""

from __future__ import annotations

from lab.real.behaviours import (
    both,
    gpus,
    heal,
    make,
    resource,
    restart_plugin,
    running,
    unmake,
    withdraw,
)
from lab.real.case import Case, Phase
from lab.real.lab import GPUS
from lab.real.mig import divides, flags, parts, refuses
from lab.real.pod_inspections import short_of
from lab.real.validating import broken, validates
from lab.real.validation_inspections import failing, result

_MAP = "k8s-device-plugin v0.19.3, internal/rm/device_map.go"
_HEALTH = "k8s-device-plugin v0.19.3, internal/rm/health.go"
_MANAGER = "kubernetes v1.34.4, pkg/kubelet/cm/devicemanager/manager.go"
_FIT = "kubernetes v1.34.4, pkg/scheduler/framework/plugins/noderesources/fit.go"
_OURS = "docs/explanation/validation.md"

_LARGE, _SMALL = "nvidia.com/mig-3g.20gb", "nvidia.com/mig-2g.10gb"
_HALVES = divides(p3g_20gb=2)
_UNLIKE = divides(p3g_20gb=1, p2g_10gb=1)

PHASES = (
    Phase(
        "single",
        (
            Case(
                "under strategy single each MIG device is a GPU",
                gpus,
                (16, 16),
                _MAP,
                both(_HALVES, restart_plugin),
            ),
            Case(
                "containers get MIG devices as they get GPUs",
                running("halves"),
                ("Running", 3),
                _MANAGER,
                make("halves", 1, 1, 2),
            ),
            Case(
                "each MIG device is validated, by its UUID",
                result(parts),
                (GPUS, [2] * GPUS),
                _OURS,
                both(
                    unmake("halves"),
                    validates(flags("single"), pool={"mig": {"3g.20gb": 2}}),
                ),
            ),
            Case(
                "MIG devices whose kernel fails are named",
                failing,
                ["MIG 5:0", "MIG 5:1"],
                _OURS,
                both(
                    broken("kernel", 5, 0, "kernel-fails=5"),
                    validates(flags("single"), pool={"mig": {"3g.20gb": 2}}),
                ),
            ),
            Case(
                "a critical XID takes one MIG device of its GPU",
                gpus,
                (16, 15),
                _HEALTH,
                both(heal, withdraw),
            ),
            Case(
                "a new plugin offers all MIG devices again",
                gpus,
                (16, 16),
                _HEALTH,
                both(heal, restart_plugin),
            ),
            Case(
                "under strategy single the plugin refuses two kinds of MIG devices",
                refuses("more than one MIG device type present on node"),
                True,
                _MAP,
                both(_UNLIKE, restart_plugin),
            ),
            Case("it offers none then", gpus, (16, 0), _MANAGER),
        ),
    ),
    Phase(
        "mixed",
        (
            Case(
                "under strategy mixed large MIG devices have a resource",
                resource(_LARGE),
                (GPUS, GPUS),
                _MAP,
            ),
            Case("small ones have another", resource(_SMALL), (GPUS, GPUS), _MAP),
            Case(
                "a pod gets both kinds",
                running("kinds"),
                ("Running", 2),
                _MANAGER,
                make("kinds", 1, 2, resources=(_LARGE, _SMALL)),
            ),
            Case(
                "a pod that asks for a whole GPU waits",
                short_of("whole"),
                ("Pending", True),
                _FIT,
                make("whole", 1),
            ),
            Case(
                "MIG devices of all kinds are validated, by their UUIDs",
                result(parts),
                (GPUS, [2] * GPUS),
                _OURS,
                both(
                    unmake("kinds", "whole"),
                    validates(flags("mixed"), pool={"mig": {"3g.20gb": 1, "2g.10gb": 1}}),
                ),
            ),
            Case(
                "a critical XID takes a large MIG device of its GPU",
                resource(_LARGE),
                (GPUS, GPUS - 1),
                _HEALTH,
                withdraw,
            ),
            Case("and a small one", resource(_SMALL), (GPUS, GPUS - 1), _HEALTH),
        ),
    ),
    Phase(
        "parts",
        (
            Case(
                "MIG devices are shared as GPUs are",
                resource(_LARGE),
                (2 * GPUS, 2 * GPUS),
                _MAP,
                heal,
            ),
            Case("those of another kind aren't", resource(_SMALL), (GPUS, GPUS), _MAP),
        ),
    ),
    Phase(
        "default",
        (
            Case("under strategy none divided GPUs are offered whole", gpus, (GPUS, GPUS), _MAP),
            Case(
                "whole again they are offered as before",
                gpus,
                (GPUS, GPUS),
                _MAP,
                both(divides(), restart_plugin),
            ),
        ),
    ),
)
