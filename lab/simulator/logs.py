"""Simulated container logs, served by kwok as the kubelet of the simulated nodes.

kwok answers `pods/log` from a file: from an empty log by default, or from one file per container if
a `Logs` object names the pod. Each log begins with `marks.SIMULATED`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.simulator import marks

Json = dict[str, Any]

PASSED = "passed"
FAILED = "failed"
SILENT = "silent"
OTHER = "other.log"

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


def of_test(figure: int) -> tuple[str, ...]:
    """Return the output lines of performance tests with this figure.

    Sources of the format: nccl-tests, src/common.cu; nvbandwidth v0.8.
    """
    return (
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {figure}",
        f"SUM host_to_device_memcpy_ce {figure}.00",
    )


def cri_text(lines: tuple[str, ...], at: datetime) -> str:
    """Return a log file with some lines, in the kubelet's format (CRI logging design)."""
    stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    return "".join(f"{stamp} stdout F {line}\n" for line in (marks.SIMULATED, *lines))


def write(folder: Path) -> None:
    """Write the empty log into `folder` if the file is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / OTHER, ())


def write_file(path: Path, lines: tuple[str, ...]) -> None:
    """Write lines as a log file if the file is missing."""
    if not path.exists():
        path.write_text(cri_text(lines, datetime.now(UTC)))


def cluster_logs(folder: Path) -> list[Json]:
    """Return kwok's configuration of the log for containers that no `Logs` object names."""
    return [
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "simulated"},
            "spec": {"logs": [{"logsFile": str(folder / OTHER)}]},
        }
    ]


def pod_logs(pod: Json, files: dict[str, Path]) -> Json:
    """Return a `Logs` object that assigns a log file to each container of a pod.

    The object is deleted with the pod.
    """
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Logs",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "ownerReferences": [owner],
        },
        "spec": {
            "logs": [
                {"containers": [container], "logsFile": str(path)}
                for container, path in files.items()
            ]
        },
    }
