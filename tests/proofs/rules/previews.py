"""Result of a preview by the real Pulumi engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Preview:
    """Exit code and output of a preview."""

    code: int
    output: str

    def violations(self, level: str) -> dict[str, list[str]]:
        """Return the ids of violated rules of one enforcement level, by the resource's name."""
        by_level: dict[str, list[str]] = {}
        resource = ""
        for line in map(str.strip, self.output.splitlines()):
            if line.startswith(("- [", "[")):
                resource = ""
                if f"[{level}]" in line:
                    resource = line.rpartition(": ")[2].rstrip(")")
            elif resource and line[:3] == "GPU" and line[3:6].isdigit():
                by_level.setdefault(resource, []).append(line[:6])
        return by_level


Run = Callable[..., Preview]
