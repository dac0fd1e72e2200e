"""This machine's own GPUs, read from `nvidia-smi`."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HOST = "host"
"""Argument of `node.sh` for a node with this machine's GPUs."""
LIMIT = 60.0
"""Timeout in seconds of `nvidia-smi`; a driver without persistence takes seconds to start a GPU."""
_LINE = re.compile(r"GPU \d+: .+ \(UUID: (GPU-[0-9a-f-]{36})\)")


@dataclass(frozen=True)
class HostGpus:
    """The GPUs of this machine.

    Attributes:
        uuids: UUIDs of the GPUs, in the order of their indexes.
    """

    nvidia_smi: Path
    uuids: tuple[str, ...]

    @classmethod
    def find(cls) -> HostGpus | None:
        """Return this machine's GPUs; None if `nvidia-smi` is missing or lists no GPU."""
        path = shutil.which("nvidia-smi")
        if not path:
            return None
        listed = subprocess.run(
            [path, "-L"], capture_output=True, text=True, timeout=LIMIT, check=False
        ).stdout
        uuids = tuple(match[1] for line in listed.splitlines() if (match := _LINE.match(line)))
        return cls(Path(path).resolve(), uuids) if uuids else None
