"""Results of a validation pod's containers: which device ran a kernel. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.gpu_holders import FINISHED
from gpu_cluster.validation.pod import CONTAINER, SHARE
from gpu_rules.printable import printable

PASSED = "Test PASSED"
"""Line that vectorAdd prints if each element of its sum is right.

Source: NVIDIA/cuda-samples, Samples/0_Introduction/vectorAdd.
"""
SIMULATED = "[simulated:"
"""Beginning of the logs in the embedded cluster, where no kernel runs."""
SHOWN = 160
"""Maximum number of characters of a log line that a message shows."""

# Lines of `nvidia-smi -L`: a GPU, followed by its MIG devices.
_GPU = re.compile(r"GPU +[0-9]+: .{0,200}\(UUID: (GPU-[0-9a-fA-F-]{8,64})\)")
_MIG = re.compile(r" +MIG .{0,200}\(UUID: (MIG-[0-9a-zA-Z/-]{8,128})\)")
_OURS = re.compile(rf"{CONTAINER}-[0-9]+({SHARE})?")


@dataclass(frozen=True)
class ContainerResult:
    """Result of one container in a validation pod.

    Attributes:
        container: Name of the container.
        gpu: UUID of the GPU that the container was given. Empty if unknown.
        instance: UUID of the MIG device that the container was given. Empty for a whole GPU.
        problem: Why the device counts as failed. Empty if a kernel ran and passed.
        simulated: Whether the kernel was only simulated.
    """

    container: str
    gpu: str = ""
    instance: str = ""
    problem: str = ""
    simulated: bool = False

    @property
    def is_share(self) -> bool:
        """Return whether the container was given a share of a device."""
        return self.container.endswith(SHARE)

    @property
    def uuid(self) -> str:
        """Return the UUID of the MIG device, or of the GPU if there is no MIG device."""
        return self.instance or self.gpu


def statuses(pod: Json) -> list[Json]:
    """Return the statuses of the validation containers, without injected sidecars."""
    listed = pod.get("status", {}).get("containerStatuses") or []
    return [status for status in listed if _OURS.fullmatch(status["name"])]


def has_ended(pod: Json) -> bool:
    """Return whether all validation containers have ended; ignore injected sidecars."""
    if pod["status"].get("phase") in FINISHED:
        return True
    ours = [
        container for container in pod["spec"]["containers"] if _OURS.fullmatch(container["name"])
    ]
    ended = [status for status in statuses(pod) if status.get("state", {}).get("terminated")]
    return len(ended) == len(ours)


def refusal(pod: Json) -> str:
    """Return why a pod failed before its containers ran, such as by the kubelet's rejection.

    The result is empty if the pod's containers ran or the pod did not fail.
    """
    status = pod["status"]
    if status.get("phase") != "Failed" or any(
        status.get("state", {}).get("terminated") for status in statuses(pod)
    ):
        return ""
    reason, message = status.get("reason") or "Failed", status.get("message") or "no message"
    return printable(f"its validation pod ended as {reason}: {message}", 4 * SHOWN)


def read_result(status: Json, log: str) -> ContainerResult:
    """Return the result of a container that has ended, from its log.

    Args:
        status: Status of the container.
        log: Output of the container.
    """
    lines = log.splitlines()
    gpus = [match[1] for line in lines if (match := _GPU.match(line))]
    instances = [match[1] for line in lines if (match := _MIG.match(line))]
    name = status["name"]
    simulated = bool(lines) and lines[0].startswith(SIMULATED)
    devices = instances or gpus
    if len(devices) != 1 or len(gpus) != 1:
        problem = f"its container sees {len(devices)} devices; wanted: 1, by `nvidia-smi -L`"
        if not devices:
            problem = f"`nvidia-smi -L` shows no device; {_last_line_text(lines)}"
        return ContainerResult(name, problem=problem, simulated=simulated)
    problem = ""
    ended = status["state"].get("terminated") or {}
    if code := ended.get("exitCode", 0):
        problem = f"exit code {code}; {_last_line_text(lines)}"
    elif PASSED not in [line.strip() for line in lines]:
        problem = f"its log has no line {PASSED!r}; {_last_line_text(lines)}"
    instance = instances[0] if instances else ""
    return ContainerResult(name, gpus[0], instance, problem, simulated)


def _last_line_text(lines: list[str]) -> str:
    filled = [line for line in lines if line.strip()]
    return f"its last line: {printable(filled[-1], SHOWN) if filled else 'no output'}"


def twice(results: list[ContainerResult]) -> str:
    """Return text that names devices given to several containers; empty if there are none."""
    by_uuid: dict[str, list[str]] = {}
    for result in results:
        if result.uuid:
            by_uuid.setdefault(result.uuid, []).append(result.container)
    return "; ".join(
        f"{uuid}: the device plugin gave it to {len(names)} containers ({', '.join(names)}); "
        "wanted: one; cure: restart the device plugin on this node"
        for uuid, names in by_uuid.items()
        if len(names) > 1
    )


def failures(results: list[ContainerResult]) -> str:
    """Return the problems of all devices as text, each with the device's UUID."""
    return "; ".join(
        f"{result.uuid or f'container {result.container}'}: "
        f"{'on a share of it: ' * result.is_share}{result.problem}"
        for result in results
        if result.problem
    )
