"""Case: one behaviour of a node, which is checked on a real and on a simulated node."""

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
        wanted: Result of `inspect` that is expected on a node with real components.
        source: Upstream file that documents the behaviour.
        act: Function that changes the node or its pods before the observation.
    """

    name: str
    inspect: Inspect
    wanted: Any
    source: str
    act: Act = lambda lab, node: None


@dataclass(frozen=True)
class Phase:
    """Cases under one configuration of the device plugin.

    `key` is the name of the configuration; it is empty if no device plugin is deployed.
    """

    key: str
    cases: tuple[Case, ...]
