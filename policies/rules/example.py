"""The example of a rule: a manifest that passes, and a manifest that breaks only this rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A passing and a failing manifest as YAML text, and the policy pack's settings for both."""

    passing: str
    failing: str
    settings: Mapping[str, Any] = field(default_factory=dict)
