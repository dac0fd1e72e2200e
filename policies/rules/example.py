"""The example of a rule: a manifest that keeps it, and one that breaks it and no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """Two manifests as YAML text, and the pack's settings that they are judged by."""

    passing: str
    failing: str
    settings: Mapping[str, Any] = field(default_factory=dict)
