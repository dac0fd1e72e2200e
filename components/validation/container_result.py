"""What a validation pod's containers prove: which device ran a kernel. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from components.kubernetes.api import Json
from components.validation.pod import CONTAINER
from policies.printable import printable

PASSED = "Test PASSED"
"""What vectorAdd prints when each element of its sum is right (NVIDIA/cuda-samples,
Samples/0_Introduction/vectorAdd)."""
SIMULATED = "[simulated:"
"""How the embedded cluster's logs begin: no kernel ran."""
SHOWN = 160
"""Characters of a log's line that a message shows."""

#: Lines of ``nvidia-smi -L``: a GPU, and below it its MIG devices.
_GPU = re.compile(r"GPU +[0-9]+: .{0,200}\(UUID: (GPU-[0-9a-fA-F-]{8,64})\)")
_MIG = re.compile(r" +MIG .{0,200}\(UUID: (MIG-[0-9a-zA-Z/-]{8,128})\)")
_OURS = re.compile(rf"{CONTAINER}-[0-9]+")


@dataclass(frozen=True)
class ContainerResult:
    """What one container proves.

    Attributes:
        container: its name.
        gpu: UUID of the GPU that it was given; empty where it can't be told.
        instance: UUID of the MIG device that it was given; empty for a whole GPU.
        problem: why its device does not count; empty where a kernel ran and passed.
        simulated: whether no real kernel ran.
    """

    container: str
    gpu: str = ""
    instance: str = ""
    problem: str = ""
    simulated: bool = False

    @property
    def uuid(self) -> str:
        """UUID of the device."""
        return self.instance or self.gpu


def statuses(pod: Json) -> list[Json]:
    """Statuses of our containers; an injected sidecar's is none of them."""
    listed = pod.get("status", {}).get("containerStatuses") or []
    return [status for status in listed if _OURS.fullmatch(status["name"])]


def has_ended(pod: Json) -> bool:
    """Whether all of our containers have ended, whatever others in the pod do."""
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return True
    ours = [
        container for container in pod["spec"]["containers"] if _OURS.fullmatch(container["name"])
    ]
    ended = [status for status in statuses(pod) if status.get("state", {}).get("terminated")]
    return len(ended) == len(ours)


def refusal(pod: Json) -> str:
    """Why a pod failed before its containers ran, such as at the kubelet's admission."""
    status = pod["status"]
    if status.get("phase") != "Failed" or any(
        status.get("state", {}).get("terminated") for status in statuses(pod)
    ):
        return ""
    reason, message = status.get("reason") or "Failed", status.get("message") or "no message"
    return printable(f"its validation pod ended as {reason}: {message}", 4 * SHOWN)


def read_result(status: Json, log: str) -> ContainerResult:
    """What a container that has ended proves by its log.

    Args:
        status: its status.
        log: what it printed.
    """
    lines = log.splitlines()
    gpus = [match[1] for line in lines if (match := _GPU.match(line))]
    instances = [match[1] for line in lines if (match := _MIG.match(line))]
    name = status["name"]
    simulated = bool(lines) and lines[0].startswith(SIMULATED)
    seen = instances or gpus
    if len(seen) != 1 or len(gpus) != 1:
        problem = f"its container sees {len(seen)} devices; wanted: 1, by `nvidia-smi -L`"
        if not seen:
            problem = f"`nvidia-smi -L` shows no device; {_last(lines)}"
        return ContainerResult(name, problem=problem, simulated=simulated)
    problem = ""
    ended = status["state"].get("terminated") or {}
    if code := ended.get("exitCode", 0):
        problem = f"exit code {code}; {_last(lines)}"
    elif PASSED not in [line.strip() for line in lines]:
        problem = f"its log has no line {PASSED!r}; {_last(lines)}"
    instance = instances[0] if instances else ""
    return ContainerResult(name, gpus[0], instance, problem, simulated)


def _last(lines: list[str]) -> str:
    filled = [line for line in lines if line.strip()]
    return f"its last line: {printable(filled[-1], SHOWN) if filled else 'no output'}"


def twice(results: list[ContainerResult]) -> str:
    """Which exclusive device two containers were given; empty where each has its own."""
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
    """Why devices do not count, each by its UUID."""
    return "; ".join(
        f"{result.uuid or f'container {result.container}'}: {result.problem}"
        for result in results
        if result.problem
    )
