"""Behaviours that the simulator imitates, as cases for a real and a simulated node.

A case describes what the real component does, and cites the upstream file. The real node must
behave that way. The simulated node must behave the same, or the case is listed in `DIFFERENCES`
with the reason.
"""

from __future__ import annotations

from gpu_cluster_lab.simulator import marks
from lab.real import dra_cases, mig_cases, nfd_cases, sharing_cases, validation_cases
from lab.real.behaviours import (
    both,
    ended_by,
    gpus,
    heal,
    lose_driver,
    make,
    names_nvml,
    plugin_pod,
    refused,
    regain_driver,
    resource,
    restart_plugin,
    running,
    says_withdrawn,
    settle,
    unmake,
    waits,
    withdraw,
)
from lab.real.case import Case, Phase
from lab.real.lab import GPUS

_MANAGER = "kubernetes v1.34.4, pkg/kubelet/cm/devicemanager/manager.go"
_HEALTH = "k8s-device-plugin v0.19.3, internal/rm/health.go"
_RUNTIME = "nvidia-container-toolkit v1.20.0, internal/modifier/cdi.go"
_SHARING = "k8s-device-plugin v0.19.3, internal/rm/device_map.go"
_SCHEDULER = "kubernetes v1.34.4, pkg/scheduler/framework/plugins/noderesources/fit.go"
_SHORT = ("Pending", "Unschedulable", True)

PHASES = (
    Phase("", (Case("without a plugin a node offers no GPU", gpus, None, _MANAGER),)),
    Phase(
        "default",
        (
            Case("the plugin's pod is ready", plugin_pod, ("Running", True), _MANAGER),
            Case("the plugin registers all GPUs", gpus, (GPUS, GPUS), _MANAGER),
            Case(
                "a pod with a container per GPU runs",
                running("full"),
                ("Running", GPUS),
                _MANAGER,
                make("full", *[1] * GPUS),
            ),
            Case(
                "a pod waits while all GPUs are held",
                waits("late"),
                _SHORT,
                _SCHEDULER,
                make("late", 1),
            ),
            Case(
                "a pod runs once GPUs are given back",
                running("late"),
                ("Running", 1),
                _SCHEDULER,
                unmake("full"),
            ),
            Case(
                "held GPUs stay in capacity and allocatable",
                gpus,
                (GPUS, GPUS),
                _MANAGER,
            ),
            Case(
                "a pod that asks for more than the node has waits",
                waits("greedy"),
                _SHORT,
                _SCHEDULER,
                make("greedy", GPUS + 1),
            ),
            Case(
                "a pod bound past the scheduler is refused",
                refused("bound"),
                ("Failed", "UnexpectedAdmissionError"),
                _MANAGER,
                make("bound", GPUS + 1, bound=True),
            ),
            Case(
                "a critical XID takes one GPU from allocatable",
                gpus,
                (GPUS, GPUS - 1),
                _HEALTH,
                both(unmake("greedy", "bound"), withdraw),
            ),
            Case("the plugin names the withdrawn device", says_withdrawn, True, _HEALTH),
            Case(
                "no GPU comes back while the plugin runs",
                gpus,
                (GPUS, GPUS - 1),
                _HEALTH,
                settle(heal),
            ),
            Case("a new plugin offers all again", gpus, (GPUS, GPUS), _HEALTH, restart_plugin),
            Case(
                "without a driver the plugin's status names NVML's error",
                names_nvml,
                True,
                _RUNTIME,
                lose_driver,
            ),
            Case("without a driver the runtime starts no plugin", ended_by, "StartError", _RUNTIME),
            Case("without a driver none is to have", gpus, (GPUS, 0), _MANAGER),
            Case("with the driver back all are", gpus, (GPUS, GPUS), _MANAGER, regain_driver),
        ),
    ),
    Phase(
        "shared",
        (
            Case("each shared GPU counts twice", gpus, (2 * GPUS, 2 * GPUS), _SHARING),
            Case(
                "a critical XID takes one replica of a shared GPU",
                gpus,
                (2 * GPUS, 2 * GPUS - 1),
                _HEALTH,
                withdraw,
            ),
        ),
    ),
    Phase(
        "renamed",
        (
            Case(
                "renamed replicas have a resource of their own",
                resource(f"{marks.GPU}.shared"),
                (2 * GPUS, 2 * GPUS),
                _SHARING,
                heal,
            ),
            Case("the old resource stays, with none to have", gpus, (2 * GPUS, 0), _MANAGER),
        ),
    ),
    *sharing_cases.PHASES,
    *validation_cases.PHASES,
    *mig_cases.PHASES,
    *dra_cases.PHASES,
    *nfd_cases.PHASES,
    Phase(
        "default",
        (Case("the first configuration comes back", gpus, (GPUS, GPUS), _MANAGER),),
    ),
    Phase("", (Case("without a plugin none is to have", gpus, (GPUS, 0), _MANAGER),)),
)

#: Cases in which the simulated node is known to behave differently, with the reason.
DIFFERENCES = {
    "no GPU comes back while the plugin runs": (
        "a fault of the simulator is a state, not an event: it lasts until it is taken away"
    ),
    "the old resource stays, with none to have": (
        "the kubelet forgets it after five minutes; the simulator at once, so that nobody waits"
    ),
    "without a driver the runtime starts no plugin": (
        "the simulator has the plugin's own words, as where containers get no library from the host"
    ),
    "a pod bound past the scheduler is refused": (
        "the simulator admits every pod of a node but its validation pods; none is bound by name"
    ),
    "a container that asks for two of those shared by MPS is refused": (
        "the simulator admits every pod of a node but its validation pods, which ask for one"
    ),
    "discovery's worker says nothing of dividing GPUs": (
        "the simulator labels both at once; nothing there reads one without the other"
    ),
    "feature discovery says that MPS doesn't share the GPUs": (
        "NVIDIA's charts find nodes for MPS's daemon by it, and no simulated plugin waits for one"
    ),
    "a container that asks for two of them is refused": (
        "the simulator admits every pod of a node but its validation pods, which ask for one"
    ),
}
