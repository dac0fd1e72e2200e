"""GPUs of a node as simulated by the mock of NVML: profile, UUIDs and faults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

#: Driver version of each profile (NVIDIA/go-nvml v0.13.3-1, pkg/nvml/mock/dgx*).
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
    """Eight GPUs of a DGX server.

    Attributes:
        node: Name of the node.
        profile: Model of the server, a key of `DRIVERS`.
        gpus: Number of GPUs.
        faults: Faults set so far, oldest first.
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
        """Return the driver version that the mock reports."""
        return DRIVERS[self.profile]

    @property
    def library(self) -> Path:
        """Return the path of the mock NVML library, without the version suffix."""
        return FOLDER / "libnvidia-ml.so"

    @property
    def state_path(self) -> Path:
        """Return the path of the library's state file.

        Its name is like that of a driver library, so that it is mounted into each container with a
        GPU.
        """
        return FOLDER / f"libnvidia-mock.so.{self.driver}"

    @property
    def uuids(self) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs, the same in each process (`lab/real/go/mock/state.go`)."""
        return tuple(_uuid(self.node, index) for index in range(self.gpus))

    @property
    def mig_uuids(self) -> tuple[tuple[str, ...], ...]:
        """Return the UUIDs of each GPU's MIG devices (`lab/real/go/mock/mig.go`)."""
        return tuple(
            tuple(_hashed("MIG", f"{gpu}/mig/{index}") for index in range(len(self.mig)))
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
        """Write the state file in place, because containers have the file itself mounted."""
        path.parent.mkdir(parents=True, exist_ok=True)
        body: dict[str, Any] = {"node": self.node, "profile": self.profile, "faults": self.faults}
        if self.mig:
            body["mig"] = [list(self.mig)] * self.gpus
        path.write_text(json.dumps(body))

    def fault(self, gpu: int, kind: str, value: int = 0) -> None:
        """Add a fault of a GPU.

        Args:
            gpu: Index of the GPU, or -1 for all GPUs of the node with `silent`, `slow` and
                `figure`.
            kind: `xid` (an event), `ecc` (an event), `lost`, `kernel` (kernels fail), `silent`
                (kernels print no result), `slow` or `figure`.
            value: The XID, the seconds that a kernel takes, or the value that a test measures.
        """
        self._serial += 1
        self.faults.append({"serial": self._serial, "gpu": gpu, "kind": kind, "value": value})

    def heal(self) -> None:
        """Remove all faults."""
        self.faults.clear()


def _uuid(node: str, index: int) -> str:
    return _hashed("GPU", f"{node}/{index}")


def _hashed(kind: str, name: str) -> str:
    text = hashlib.sha256(name.encode()).hexdigest()
    return "-".join((f"{kind}-6d6f636b", text[8:12], text[12:16], text[16:20], text[20:32]))
