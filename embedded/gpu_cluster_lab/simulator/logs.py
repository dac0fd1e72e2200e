"""Simulated container logs, in one file per container. Each log begins with `marks.SIMULATED`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from gpu_cluster_lab.simulator import marks

PASSED = "passed"
FAILED = "failed"
SILENT = "silent"

#: Log lines of the CUDA sample vectorAdd (NVIDIA/cuda-samples, Samples/0_Introduction/vectorAdd).
_RUN = (
    "[Vector addition of 50000 elements]",
    "Copy input data from the host memory to the CUDA device",
    "CUDA kernel launch with 196 blocks of 256 threads",
    "Copy output data from the CUDA device to the host memory",
)

#: Error of vectorAdd if GPUs exist but CUDA cannot start: error 802, as on an NVSwitch server
#: without its fabric manager (CUDA runtime API, cudaErrorSystemNotReady).
_ERROR = "Failed to allocate device vector A (error code system not yet initialized)!"

RUNS: dict[str, tuple[str, ...]] = {
    PASSED: (*_RUN, "Test PASSED", "Done"),
    FAILED: (_RUN[0], _ERROR),
    SILENT: (*_RUN, "Done"),
}
"""Output lines of a CUDA test program, by its result."""


TERMINATION_LOG = "/dev/termination-log"
"""Default path of the file with a container's termination message."""
MESSAGES_BYTES = 12 * 1024
"""Maximum size of the termination messages of a pod: MaxPodTerminationMessageLogLength."""
_REPORTED = re.compile(r"^GPU | MIG |Test PASSED")


def of_test(figure: int) -> tuple[str, ...]:
    """Return the output lines of performance tests with this figure.

    Sources of the format: nccl-tests, src/common.cu; nvbandwidth v0.8.
    """
    return (
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {figure}",
        f"SUM host_to_device_memcpy_ce {figure}.00",
    )


def termination_message(command: Sequence[str], lines: tuple[str, ...], containers: int) -> str:
    """Return the termination message of a container; empty if its command writes none.

    The lines are those that the validation's script reports
    (`gpu_cluster.desired.pod_template.SCRIPT`; a test runs the script). A kubelet cuts the
    messages of a pod (kubernetes v1.34.4 pkg/kubelet/status/status_manager.go, normalizeStatus).

    Args:
        command: The container's command.
        lines: Output of the container, without the mark of simulated logs.
        containers: Number of the pod's containers.
    """
    if not any(TERMINATION_LOG in word for word in command):
        return ""
    reported = [line for line in lines if _REPORTED.search(line)]
    text = "".join(f"{line}\n" for line in (marks.SIMULATED, *reported))
    return text.encode()[: MESSAGES_BYTES // containers].decode(errors="ignore")


def write(folder: Path, namespace: str, pod: str, container: str, lines: tuple[str, ...]) -> None:
    """Write lines as the log of a pod's container."""
    path = _find_file(folder, namespace, pod, container)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in (marks.SIMULATED, *lines)))


def read(folder: Path, namespace: str, pod: str, container: str) -> str:
    """Return the log of a pod's container; the log of any other pod has the mark only."""
    try:
        return _find_file(folder, namespace, pod, container).read_text()
    except FileNotFoundError:
        return f"{marks.SIMULATED}\n"


def _find_file(folder: Path, *names: str) -> Path:
    """Return the path of a log; a name never leads out of the folder."""
    return folder.joinpath(*(quote(name, safe="").replace(".", "%2E") for name in names))
