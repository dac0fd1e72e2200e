"""Steps of hosts, discovered by name: each module has a `STEP` and a script of its name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from graphlib import TopologicalSorter

from gpu_cluster.hosts.step import Phase, Step


@cache
def every() -> Mapping[str, Step]:
    """Return all steps by name, ordered so that each step follows the step that `after` names.

    Raises:
        TypeError: A module has no `STEP`.
        ValueError: A step's `after` names no step of its phase.
    """
    steps = {
        name: _load_step(name)
        for name in sorted(module.name for module in pkgutil.iter_modules(__path__))
    }
    for name, step in steps.items():
        if step.after and (step.after not in steps or steps[step.after].phase != step.phase):
            raise ValueError(
                f"step {name}: found after={step.after!r}; wanted: a step of its phase; "
                f"cure: correct `after` in {name}.py"
            )
    before = {name: {step.after} - {""} for name, step in steps.items()}
    return {name: steps[name] for name in TopologicalSorter(before).static_order()}


def of_phase(phase: Phase) -> dict[str, Step]:
    """Return the steps of a phase by name, in order."""
    return {name: step for name, step in every().items() if step.phase == phase}


def _load_step(name: str) -> Step:
    module = importlib.import_module(f"{__name__}.{name}")
    step = getattr(module, "STEP", None)
    if not isinstance(step, Step):
        raise TypeError(
            f"{module.__file__}: found no STEP; wanted: a Step; cure: see docs/contributing.md"
        )
    return step if step.files else replace(step, files=(name,))
