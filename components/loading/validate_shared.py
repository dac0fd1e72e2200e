"""Refuse different values of a setting that one Helm release gives to all nodes with GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from components.platforms.discovery import named
from components.settings.valid_sections import Level, ValidSections
from policies.faults import Fault, fault


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield a fault for each pool or host that overrides a setting which all nodes share."""
    if sections.platform is None:
        return
    shared = [
        (level, named(sections.platform).shared(level.driver, level.runtime))
        for level in sections.gpu_levels
        if level.driver is not None and level.runtime is not None
    ]
    first: dict[tuple[str, str], dict[object, Level]] = {}
    for level, settings in shared:
        for setting, value in settings.items():
            first.setdefault(setting, {}).setdefault(value, level)
    for level, settings in shared:
        for (section, key), value in settings.items():
            others = [each for each in first[section, key].items() if each[0] != value]
            location = level.place(section, key) if others else ()
            if location and location[:2] == level.location:
                yield fault(
                    location,
                    f"{value} for {level}, and {others[0][0]} for {others[0][1]}",
                    f"one value for all nodes with GPUs: platform {sections.platform} is one "
                    "release on all of them",
                    f"remove it here, and write it in section {section} of the stack",
                )
