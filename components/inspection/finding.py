"""What a look found that is not as declared."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

from config.printable import printable


class Severity(StrEnum):
    """``error``: the declaration can't come true here; ``warning``: told, not stopped."""

    ERROR = "error"
    WARNING = "warning"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is not as wanted. ``place``: where it was found, such as ``host gpu-1``."""

    place: str
    found: str
    wanted: str
    cure: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return printable(f"{self.place}: found {self.found}; wanted {self.wanted}; {self.cure}")
