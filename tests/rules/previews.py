"""What a preview by the real engine ended with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Preview:
    """What a preview ended with: exit code, everything that it printed."""

    code: int
    output: str

    def violations(self, level: str) -> dict[str, list[str]]:
        """Rule ids by the name of the resource that broke them."""
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
