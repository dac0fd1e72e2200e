"""What a case is: one behaviour, acted and looked at on a real and on a simulated node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.real.behaviours import Act, Inspect


@dataclass(frozen=True)
class Case:
    """One behaviour.

    ``act``: what is done to the node; ``look``: what is seen; ``wanted``: what the real part shows
    in the end; ``source``: the upstream file that says so.
    """

    name: str
    inspect: Inspect
    wanted: Any
    source: str
    act: Act = lambda lab, node: None


@dataclass(frozen=True)
class Phase:
    """Cases under one configuration of the plugin; ``key``: its name, empty: no plugin."""

    key: str
    cases: tuple[Case, ...]
