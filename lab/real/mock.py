"""The GPUs of a node, as its mock of NVML shows them: profile, UUIDs, faults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

#: Profiles and their driver's version (NVIDIA/go-nvml v0.13.3-1, pkg/nvml/mock/dgx*).
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
    """Eight GPUs of a DGX server. ``faults``: those set so far, oldest first."""

    node: str
    profile: str = "dgxa100"
    gpus: int = 8
    faults: list[dict[str, Any]] = field(default_factory=list)
    _serial: int = 0

    @property
    def driver(self) -> str:
        """Version of the driver that the mock claims."""
        return DRIVERS[self.profile]

    @property
    def library(self) -> Path:
        """The library, without the end of its names."""
        return FOLDER / "libnvidia-ml.so"

    @property
    def state_path(self) -> Path:
        """Where the library reads its state: named as a driver's library, so that it is mounted
        into each container with a GPU."""
        return FOLDER / f"libnvidia-mock.so.{self.driver}"

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of the GPUs by index, the same in each process (``lab/real/go/mock/state.go``)."""
        return tuple(_uuid(self.node, index) for index in range(self.gpus))

    def write(self, path: Path) -> None:
        """Write the state in place: containers have the file itself mounted."""
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"node": self.node, "profile": self.profile, "faults": self.faults}
        path.write_text(json.dumps(body))

    def fault(self, gpu: int, kind: str, xid: int = 0) -> None:
        """Add a fault: ``xid`` (an event), ``lost`` or ``ecc``."""
        self._serial += 1
        self.faults.append({"serial": self._serial, "gpu": gpu, "kind": kind, "xid": xid})

    def heal(self) -> None:
        """Take all faults away."""
        self.faults.clear()


def _uuid(node: str, index: int) -> str:
    text = hashlib.sha256(f"{node}/{index}".encode()).hexdigest()
    return "-".join(("GPU-6d6f636b", text[8:12], text[12:16], text[16:20], text[20:32]))
