"""Check that no setting of a stack file contradicts adopted GPU software."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from gpu_cluster.charts.extra_values import plain
from gpu_cluster.settings.adopted import AdoptedSettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault

# Settings that only describe adopted software. All other settings of the platform have no effect,
# because the values of the adopted release apply.
_DESCRIBING: Mapping[str, frozenset[str]] = {
    "device-plugin": frozenset({"config", "configs"}),
    "gpu-operator": frozenset({"device_plugin", "mig_strategy", "nfd", "toolkit"}),
}
_OF_OBJECTS = frozenset({"device-plugin"})
"""Platforms whose software can be taken over as plain objects, without a release."""
_VARIABLE = "DEVICE_LIST_STRATEGY"
"""Variable of the device plugin with the ways in which it passes GPUs (0.20.1, cmd/main.go)."""
_ENVIRONMENT = "envvar"
"""Strategy of the device plugin, its default: GPUs by the variable NVIDIA_VISIBLE_DEVICES."""


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for settings that have no effect on adopted software, or break it."""
    adopted, platform = sections.section(AdoptedSettings), sections.platform
    if adopted is None or platform is None:
        return
    possible = _OF_OBJECTS if adopted.objects else frozenset(_DESCRIBING)
    if platform not in possible:
        able = " or ".join(sorted(possible))
        described = "objects" if adopted.objects else "release"
        yield fault(
            ("adopted", described),
            f"adopted software, with platform {platform}",
            f"platform {able}",
            "remove adopted: the stack installs this platform itself",
        )
        return
    name = platform.replace("-", "_")
    section = sections.sections.get(name)
    declared_fields = section.model_fields_set if section is not None else set()
    for field in sorted(declared_fields - _DESCRIBING[platform]):
        yield fault(
            (to_camel(name), to_camel(field)),
            "a setting of software that is adopted",
            "only settings that describe this software; the section adopted has its values",
            "write the value under adopted.release.values, by the chart's own name, or remove "
            "the setting",
        )
    for i, pool in sections.pools.items():
        if any(devices.index for devices in pool.unhealthy_devices.values()):
            yield fault(
                ("pools", i, "unhealthyDevices"),
                "GPUs to leave out by index, with adopted",
                "GPUs by uuid or missing: the plugin that was taken over sees all GPUs",
                "write uuid, or remove adopted so that the stack installs the plugin",
            )
    yield from _check_device_passing(sections, adopted)


def _check_device_passing(sections: ValidSections, adopted: AdoptedSettings) -> Iterator[Fault]:
    """Yield a fault if prepared hosts might ignore the GPUs that the adopted plugin passes."""
    for level in sections.host_levels:
        runtime = level.runtime
        declared = runtime is None or "devices_by_environment" in runtime.model_fields_set
        if level.has_gpus and not declared and passes_by_environment(adopted):
            yield fault(
                level.place("runtime", "devices_by_environment"),
                "no value, with hosts and an adopted plugin that passes GPUs by a variable",
                "true or false: by default, hosts give no container GPUs by NVIDIA_VISIBLE_DEVICES",
                'write "devicesByEnvironment: true"; false only if the plugin passes GPUs by '
                "mounts or CDI",
            )


def passes_by_environment(adopted: AdoptedSettings) -> bool:
    """Return whether adopted software passes GPUs by NVIDIA_VISIBLE_DEVICES, as by default."""
    ways = _device_passing_ways(adopted)
    return not ways or _ENVIRONMENT in ways


def _device_passing_ways(adopted: AdoptedSettings) -> str:
    """Return the ways in which adopted software passes GPUs to containers; empty if unknown."""
    if adopted.release is None:
        containers = _walk_containers(plain(adopted.objects))
        return next(filter(None, (variable_of(one, _VARIABLE) for one in containers)), "")
    values = plain(adopted.release.values)
    ways = values.get("deviceListStrategy")
    if isinstance(ways, list):
        ways = ",".join(map(str, ways))
    plugin = values.get("devicePlugin")
    return str(ways or "") or variable_of(plugin, _VARIABLE)


def _walk_containers(objects: Any) -> Iterator[Any]:
    """Yield all mappings with a list `env` in objects of the API server."""
    if isinstance(objects, Mapping):
        if "env" in objects:
            yield objects
        objects = list(objects.values())
    if isinstance(objects, list | tuple):
        for item in objects:
            yield from _walk_containers(item)


def variable_of(container: Any, name: str) -> str:
    """Return the value of a variable in a mapping with a list `env`; empty if it isn't there."""
    listed = container.get("env") if isinstance(container, Mapping) else None
    for variable in listed if isinstance(listed, list) else []:
        if isinstance(variable, Mapping) and variable.get("name") == name:
            return str(variable.get("value") or "")
    return ""
