"""Check that no setting of a stack file contradicts adopted GPU software."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic.alias_generators import to_camel

from components.settings.adopted import AdoptedSettings
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, fault

# Settings that only describe adopted software. All other settings of the platform have no effect,
# because the values of the adopted release apply.
_DESCRIBING: Mapping[str, frozenset[str]] = {
    "device-plugin": frozenset({"config", "configs"}),
    "gpu-operator": frozenset({"device_plugin", "mig_strategy", "nfd", "toolkit"}),
}
_OF_OBJECTS = frozenset({"device-plugin"})
"""Platforms whose software can be taken over as plain objects, without a release."""


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for settings that have no effect on adopted software."""
    adopted, platform = sections.sections.get("adopted"), sections.platform
    if not isinstance(adopted, AdoptedSettings) or platform is None:
        return
    possible = _OF_OBJECTS if adopted.objects else frozenset(_DESCRIBING)
    if platform not in possible:
        able = " or ".join(sorted(possible))
        what = "objects" if adopted.objects else "release"
        yield fault(
            ("adopted", what),
            f"one, with platform {platform}",
            f"platform {able}",
            "remove adopted: the stack installs this platform itself",
        )
        return
    name = platform.replace("-", "_")
    section = sections.section(name)
    given = section.model_fields_set if section is not None else set()
    for field in sorted(given - _DESCRIBING[platform]):
        yield fault(
            (to_camel(name), to_camel(field)),
            "a setting, with adopted",
            "only settings that describe the software: its values come from adopted",
            "write it into adopted.release.values as the chart names it, or remove it",
        )
    for i, pool in sections.pools.items():
        if any(devices.index for devices in pool.unhealthy_devices.values()):
            yield fault(
                ("pools", i, "unhealthyDevices"),
                "GPUs to leave out by index, with adopted",
                "GPUs by uuid or missing: the plugin that was taken over sees all GPUs",
                "write uuid, or remove adopted so that the stack installs the plugin",
            )
