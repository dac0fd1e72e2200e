"""Simulated container logs, served by kwok as the kubelet of the simulated nodes.

kwok answers ``pods/log`` from a file: one for all validation pods (`PASSED`), and another where a
``Logs`` object names the pod (`FAILED`, `SILENT`). Each begins with `marks.SIMULATED`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.simulator import marks

Json = dict[str, Any]

PASSED = "validation-passed.log"
FAILED = "validation-failed.log"
SILENT = "validation-silent.log"
OTHER = "other.log"

#: Output of the CUDA sample vectorAdd (NVIDIA/cuda-samples, Samples/0_Introduction/vectorAdd).
_RUN = (
    "[Vector addition of 50000 elements]",
    "Copy input data from the host memory to the CUDA device",
    "CUDA kernel launch with 196 blocks of 256 threads",
    "Copy output data from the CUDA device to the host memory",
)

#: The same sample where the GPUs are there and CUDA cannot start: error 802, as on an NVSwitch
#: server without its fabric manager (CUDA runtime API, cudaErrorSystemNotReady).
_ERROR = "Failed to allocate device vector A (error code system not yet initialized)!"

LINES: dict[str, tuple[str, ...]] = {
    PASSED: (*_RUN, "Test PASSED", "Done"),
    FAILED: (_RUN[0], _ERROR),
    SILENT: (*_RUN, "Done"),
    OTHER: (),
}


def cri_text(lines: tuple[str, ...], at: datetime) -> str:
    """A log file as a container runtime writes it (kubernetes, CRI logging design)."""
    stamp = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    return "".join(f"{stamp} stdout F {line}\n" for line in (marks.SIMULATED, *lines))


def write(folder: Path) -> None:
    """Write the log files below ``folder`` where they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in LINES.items():
        path = folder / name
        if not path.exists():
            path.write_text(cri_text(lines, datetime.now(UTC)))


def cluster_logs(folder: Path) -> list[Json]:
    """kwok's configuration: the log of each container that no ``Logs`` object names."""
    return [
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterLogs",
            "metadata": {"name": "simulated"},
            "spec": {
                "logs": [
                    {
                        "containers": [marks.VALIDATION_CONTAINER],
                        "logsFile": str(folder / PASSED),
                    },
                    {"logsFile": str(folder / OTHER)},
                ]
            },
        }
    ]


def pod_logs(pod: Json, file: Path) -> Json:
    """A ``Logs`` object that gives one pod another log; it goes with the pod."""
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
        "spec": {"logs": [{"logsFile": str(file)}]},
    }
