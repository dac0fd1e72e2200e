"""Case: one behaviour that is triggered and observed on a real and on a simulated node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.real.behaviours import Act, Inspect


@dataclass(frozen=True)
class Case:
    """One behaviour of a node.

    Attributes:
        name: Name of the case.
        inspect: Function that observes the node.
        wanted: Final observation on a node with real components.
        source: Upstream file that documents the behaviour.
        act: Function that acts on the node before the observation.
    """

    name: str
    inspect: Inspect
    wanted: Any
    source: str
    act: Act = lambda lab, node: None


@dataclass(frozen=True)
class Phase:
    """Cases under one configuration of the plugin; `key` is its name, empty for no plugin."""

    key: str
    cases: tuple[Case, ...]
