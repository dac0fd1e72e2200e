"""Faults that a simulated node can have, with the messages of the components that would fail.

Pure functions. A fault is set by the node annotation ``simulator.gpu-cluster/fault``; several are
separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lab.simulator import marks

DRIVER_MISSING = "driver-missing"
RUNTIME_NOT_CONFIGURED = "runtime-not-configured"
UNHEALTHY_GPUS = "unhealthy-gpus"
VALIDATION_FAILS = "validation-fails"
VALIDATION_SILENT = "validation-silent"
KERNEL_FAILS = "kernel-fails"
SLOW = "slow"
FIGURE = "figure"
DRIVER_ALREADY_LOADED = "driver-already-loaded"

NAMES = (
    DRIVER_MISSING,
    DRIVER_ALREADY_LOADED,
    RUNTIME_NOT_CONFIGURED,
    f"{UNHEALTHY_GPUS}=K",
    VALIDATION_FAILS,
    VALIDATION_SILENT,
    f"{KERNEL_FAILS}=I",
    f"{SLOW}=S",
    f"{FIGURE}=F",
)
#: Faults with a number: their field, and the smallest.
_NUMBERED = {
    UNHEALTHY_GPUS: ("unhealthy", 1),
    KERNEL_FAILS: ("kernel_fails", 0),
    SLOW: ("slow", 1),
    FIGURE: ("figure", 0),
}

#: What the device plugin prints where libnvidia-ml is not found, as without a driver
#: (NVIDIA/k8s-device-plugin v0.20.0, internal/plugin/factory.go, getResourceManagers; the last line
#: as v0.19.3 was seen to print it on a real node, docs/real-parts.md).
DRIVER_MISSING_MESSAGE = (
    "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND. "
    "If this is a GPU node, did you set the docker default runtime to `nvidia`? "
    "error starting plugins: error getting plugins: unable to create plugins: "
    "failed to construct resource managers: nvml init failed: ERROR_LIBRARY_NOT_FOUND"
)

#: What the device plugin ends with under the MIG strategy "single" on GPUs that are divided unlike
#: (k8s-device-plugin v0.19.3, internal/rm/device_map.go, as seen on a real node).
MIG_UNLIKE_MESSAGE = (
    "error starting plugins: error getting plugins: unable to create plugins: failed to construct "
    "resource managers: error building device map: error building device map from "
    "config.resources: invalid MIG configuration: error visiting devices: error visiting device: "
    "error visiting device: error visiting MIG device: error visiting MIG device: more than one "
    "MIG device type present on node"
)

#: What the kubelet reports where containerd has no such runtime (containerd v1.7.29,
#: pkg/cri/server/sandbox_run.go; NVIDIA/gpu-operator#413 and #549 quote the whole line; from 2.0 on
#: it reads "unable to get OCI runtime for sandbox").
RUNTIME_NOT_CONFIGURED_MESSAGE = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = "
    'failed to get sandbox runtime: no runtime for "nvidia" is configured'
)

#: What an installer's log ends with where the host has loaded a driver itself (document 003,
#: "Error 1", of nvidia-driver-installer).
ALREADY_LOADED_MESSAGE = (
    "An NVIDIA kernel module 'nvidia' appears to already be loaded in your kernel."
)

#: What the device plugin logs for a GPU that it withdraws (NVIDIA/k8s-device-plugin v0.20.0,
#: internal/rm/health.go). Xid 79 is "GPU has fallen off the bus" (NVIDIA "XID Errors").
UNHEALTHY_MESSAGE = "XidCriticalError: Xid=79 on Device={device}; marking device as unhealthy."


class SimulatorFaultError(ValueError):
    """A fault that the simulator does not know; the message names the known ones."""


@dataclass(frozen=True)
class Faults:
    """The faults of one node.

    ``unhealthy``: GPUs withdrawn by the health check, 0 for none; ``kernel_fails``: index of the
    GPU on which no kernel runs, -1 for none; ``slow``: seconds that a kernel takes; ``figure``:
    what tests measure; ``unknown``: why the annotation cannot be read, empty where it can.
    """

    driver_missing: bool = False
    driver_already_loaded: bool = False
    runtime_not_configured: bool = False
    unhealthy: int = 0
    validation_fails: bool = False
    validation_silent: bool = False
    kernel_fails: int = -1
    slow: int = 0
    figure: int = 400
    unknown: str = ""

    @property
    def plugin_message(self) -> str | None:
        """Why the device plugin cannot start; ``None`` where it can."""
        if self.driver_missing:
            return DRIVER_MISSING_MESSAGE
        if self.runtime_not_configured:
            return RUNTIME_NOT_CONFIGURED_MESSAGE
        return self.unknown or None


def parse(text: str) -> Faults:
    """Read the annotation's value; an empty text isn't a fault.

    :raises FaultError: an unknown name, or a name that needs a number without one.
    """
    values: dict[str, bool | int] = {}
    for word in (part.strip() for part in text.split(",")):
        if not word:
            continue
        name, equals, value = word.partition("=")
        if name in _NUMBERED:
            field, least = _NUMBERED[name]
            if not re.fullmatch(r"[0-9]{1,4}", value) or int(value) < least:
                raise SimulatorFaultError(
                    f"fault {word!r}: wanted {name}=N, N a whole number from {least}"
                )
            values[field] = int(value)
        elif name in NAMES and not equals:
            values[name.replace("-", "_")] = True
        else:
            raise SimulatorFaultError(
                f"fault {word!r}: not known; wanted one of {', '.join(NAMES)}"
            )
    return Faults(**values)  # type: ignore[arg-type]


def unhealthy_message(uuids: Iterable[str]) -> str:
    """What the device plugin logs for the GPUs that it withdraws; empty for none."""
    return " ".join(UNHEALTHY_MESSAGE.format(device=uuid) for uuid in uuids)


def of_node(annotations: Mapping[str, str]) -> Faults:
    """The faults of a node; one that waits for its driver's installer has no driver."""
    try:
        faults = parse(annotations.get(marks.FAULT, ""))
    except SimulatorFaultError as error:
        faults = Faults(unknown=str(error))  # a typing error must not pass as healthy
    waits = marks.DRIVER_WANTED in annotations and marks.DRIVER_LOADED not in annotations
    return replace(faults, driver_missing=True) if waits else faults
