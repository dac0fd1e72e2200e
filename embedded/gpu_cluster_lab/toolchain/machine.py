"""Platform of this machine (system and architecture in Go's names)."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from gpu_cluster.machine.tool import ToolchainError

_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Platform:
    """Platform: an operating system and an architecture.

    Attributes:
        system: ``linux`` or ``darwin``.
        machine: ``amd64`` or ``arm64``.
    """

    system: str
    machine: str

    def __str__(self) -> str:
        """Return the platform as Go writes it, for example ``linux/amd64``."""
        return f"{self.system}/{self.machine}"


def here() -> Platform:
    """Return the platform of this machine.

    Raises:
        ToolchainError: The tools do not run on this platform.
    """
    system, machine = platform.system().lower(), platform.machine().lower()
    if system not in ("linux", "darwin") or machine not in _MACHINES:
        raise ToolchainError(
            f"this machine is {system}/{machine}; wanted linux or darwin on amd64 or arm64; "
            "cure: run in a virtual machine or container of one of these"
        )
    return Platform(system, _MACHINES[machine])
