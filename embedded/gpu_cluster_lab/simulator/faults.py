"""Faults of a simulated node, with the error messages of the real components that would fail.

The node annotation `simulator.gpu-cluster/fault` has a node's faults, separated by commas. All
functions are pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gpu_cluster_lab.simulator import marks

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
#: Faults that need a number: the field of `Faults` for the number, and the smallest valid number.
_NUMBERED = {
    UNHEALTHY_GPUS: ("unhealthy", 1),
    KERNEL_FAILS: ("kernel_fails", 0),
    SLOW: ("slow", 1),
    FIGURE: ("figure", 0),
}

#: Message of the device plugin if libnvidia-ml is missing, as on a node without a driver
#: (NVIDIA/k8s-device-plugin v0.20.0, internal/plugin/factory.go, getResourceManagers; the last line
#: as printed by v0.19.3 on a real node, docs/explanation/real-parts.md).
DRIVER_MISSING_MESSAGE = (
    "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND. "
    "If this is a GPU node, did you set the docker default runtime to `nvidia`? "
    "error starting plugins: error getting plugins: unable to create plugins: "
    "failed to construct resource managers: nvml init failed: ERROR_LIBRARY_NOT_FOUND"
)

#: Message with which the device plugin exits under the MIG strategy "single" if the GPUs have
#: different MIG partitions (k8s-device-plugin v0.19.3, internal/rm/device_map.go, as observed on a
#: real node).
MIG_UNLIKE_MESSAGE = (
    "error starting plugins: error getting plugins: unable to create plugins: failed to construct "
    "resource managers: error building device map: error building device map from "
    "config.resources: invalid MIG configuration: error visiting devices: error visiting device: "
    "error visiting device: error visiting MIG device: error visiting MIG device: more than one "
    "MIG device type present on node"
)

#: Message of the kubelet if containerd has no runtime `nvidia` (containerd v1.7.29,
#: pkg/cri/server/sandbox_run.go; NVIDIA/gpu-operator#413 and #549 quote the whole line; since
#: containerd 2.0 the text is "unable to get OCI runtime for sandbox").
RUNTIME_NOT_CONFIGURED_MESSAGE = (
    "Failed to create pod sandbox: rpc error: code = Unknown desc = "
    'failed to get sandbox runtime: no runtime for "nvidia" is configured'
)

#: Last log line of the pod nvidia-driver-installer if the host has already loaded a driver
#: (NVIDIA's installer, as kubespray's users report it).
ALREADY_LOADED_MESSAGE = (
    "An NVIDIA kernel module 'nvidia' appears to already be loaded in your kernel."
)

#: Log message of the device plugin for a GPU that is marked unhealthy (NVIDIA/k8s-device-plugin
#: v0.20.0, internal/rm/health.go). Xid 79 means "GPU has fallen off the bus" (NVIDIA "XID Errors").
UNHEALTHY_MESSAGE = "XidCriticalError: Xid=79 on Device={device}; marking device as unhealthy."


class SimulatorFaultError(ValueError):
    """Error: a fault annotation is invalid; the message lists the valid faults."""


@dataclass(frozen=True)
class Faults:
    """Faults of one simulated node.

    Attributes:
        driver_missing: True if the node has no NVIDIA driver.
        driver_already_loaded: True if the host has already loaded a driver.
        runtime_not_configured: True if containerd has no `nvidia` runtime.
        unhealthy: Number of GPUs that the health check marks unhealthy.
        validation_fails: True if validation tests fail.
        validation_silent: True if validation tests print no result.
        kernel_fails: Index of the GPU on which CUDA kernels fail, -1 for none.
        slow: Seconds that a CUDA kernel takes.
        figure: Value that performance tests measure.
        unknown: Error message if the annotation is invalid, else empty.
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
        """Return the error message of a device plugin that cannot start, else None."""
        if self.driver_missing:
            return DRIVER_MISSING_MESSAGE
        if self.runtime_not_configured:
            return RUNTIME_NOT_CONFIGURED_MESSAGE
        return self.unknown or None


def parse(text: str) -> Faults:
    """Parse the value of the fault annotation; an empty value means that the node is healthy.

    Raises:
        SimulatorFaultError: A name is unknown, or its required number is missing or too small.
    """
    values: dict[str, bool | int] = {}
    for word in (word_text.strip() for word_text in text.split(",")):
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
    """Return the device plugin's log messages for unhealthy GPUs; empty if there are none."""
    return " ".join(UNHEALTHY_MESSAGE.format(device=uuid) for uuid in uuids)


def of_node(annotations: Mapping[str, str]) -> Faults:
    """Return a node's faults from its annotations.

    A node that waits for its driver installer counts as a node without driver.
    """
    try:
        faults = parse(annotations.get(marks.FAULT, ""))
    except SimulatorFaultError as error:
        # An annotation that can't be parsed must not count as a healthy node.
        faults = Faults(unknown=str(error))
    waits = marks.DRIVER_WANTED in annotations and marks.DRIVER_LOADED not in annotations
    return replace(faults, driver_missing=True) if waits else faults
