"""State of the mock NVML library on one node: server model, GPU UUIDs and faults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

#: Driver version by server model (NVIDIA/go-nvml v0.13.3-1, pkg/nvml/mock/dgx*).
DRIVERS: Mapping[str, str] = MappingProxyType(
    {
        "dgxa100": "550.54.15",
        "dgxh100": "550.54.15",
        "dgxh200": "550.54.15",
        "dgxb200": "560.28.03",
    }
)
FOLDER = Path("/usr/lib/x86_64-linux-gnu")


@dataclass
class Mock:
    """GPUs of one node that the mock NVML library simulates: by default a DGX server's eight GPUs.

    Attributes:
        profile: Model of the server, a key of `DRIVERS`.
        gpus: Number of GPUs.
        faults: Simulated faults, oldest first.
        mig: Profiles of each GPU's MIG devices, the same on all GPUs; empty without MIG.
    """

    node: str
    profile: str = "dgxa100"
    gpus: int = 8
    faults: list[dict[str, Any]] = field(default_factory=list)
    mig: tuple[str, ...] = ()
    _serial: int = 0

    @property
    def driver(self) -> str:
        """Return the driver version that the mock NVML library reports."""
        return DRIVERS[self.profile]

    @property
    def library(self) -> Path:
        """Return the path of the mock NVML library, without the version suffix."""
        return FOLDER / "libnvidia-ml.so"

    @property
    def state_path(self) -> Path:
        """Return the path of the mock NVML library's state file.

        The file is named like a driver library, so that the NVIDIA runtime mounts it into each
        container with a GPU.
        """
        return FOLDER / f"libnvidia-mock.so.{self.driver}"

    @property
    def uuids(self) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs, which are derived from the node's name.

        `lab/real/go/mock/state.go` derives them in the same way.
        """
        return tuple(_gpu_uuid(self.node, index) for index in range(self.gpus))

    @property
    def mig_uuids(self) -> tuple[tuple[str, ...], ...]:
        """Return the UUIDs of each GPU's MIG devices, derived as in `lab/real/go/mock/mig.go`."""
        return tuple(
            tuple(_hashed_uuid("MIG", f"{gpu}/mig/{index}") for index in range(len(self.mig)))
            for gpu in self.uuids
        )

    @property
    def capabilities(self) -> dict[str, int]:
        """Return the minor numbers of the MIG capabilities' device nodes, by capability name.

        A program needs the device node to use a MIG instance (MIG User Guide, "Device Nodes and
        Capabilities").
        """
        numbers = {}
        for gpu in range(self.gpus):
            for index in range(len(self.mig)):
                first = 3 + 2 * (8 * gpu + index)
                numbers[f"gpu{gpu}/gi{index + 1}/access"] = first
                numbers[f"gpu{gpu}/gi{index + 1}/ci0/access"] = first + 1
        return numbers

    def write(self, path: Path) -> None:
        """Overwrite the state file without replacing it: containers have this very file mounted."""
        path.parent.mkdir(parents=True, exist_ok=True)
        body: dict[str, Any] = {"node": self.node, "profile": self.profile, "faults": self.faults}
        if self.mig:
            body["mig"] = [list(self.mig)] * self.gpus
        path.write_text(json.dumps(body))

    def fault(self, gpu: int, kind: str, value: int = 0) -> None:
        """Add a simulated fault of a GPU.

        Args:
            gpu: Index of the GPU, or -1 for all GPUs of the node with `silent`, `slow` and
                `figure`.
            kind: `xid` (XID event), `ecc` (ECC error event), `lost` (GPU is lost), `kernel`
                (kernels fail), `silent` (kernels print no result), `slow` (kernels take `value`
                seconds) or `figure` (a test measures `value`).
            value: The XID, the seconds that a kernel takes, or the value that a test measures.
        """
        self._serial += 1
        self.faults.append({"serial": self._serial, "gpu": gpu, "kind": kind, "value": value})

    def heal(self) -> None:
        """Remove all simulated faults."""
        self.faults.clear()


def _gpu_uuid(node: str, index: int) -> str:
    return _hashed_uuid("GPU", f"{node}/{index}")


def _hashed_uuid(kind: str, name: str) -> str:
    text = hashlib.sha256(name.encode()).hexdigest()
    return "-".join((f"{kind}-6d6f636b", text[8:12], text[12:16], text[16:20], text[20:32]))
