"""Check that no setting of a stack file contradicts adopted GPU software."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from gpu_cluster.base.model import Model
from gpu_cluster.charts.extra_values import plain, value_at
from gpu_cluster.charts.value_table import SERIES, table
from gpu_cluster.settings.adopted import AdoptedSettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, Location, fault
from gpu_rules.printable import printable

# Settings that only describe adopted software. All other settings of the platform have no effect,
# because the values of the adopted release apply.
_DESCRIBING: Mapping[str, frozenset[str]] = {
    "device-plugin": frozenset({"config", "configs"}),
    "gpu-operator": frozenset({"device_plugin", "mig_strategy", "nfd", "toolkit"}),
    "hami": frozenset({"device_split_count"}),
}
_OF_OBJECTS = frozenset({"device-plugin"})
"""Platforms whose software can be taken over as plain objects, without a release."""
_VARIABLE = "DEVICE_LIST_STRATEGY"
"""Variable of the device plugin with the ways in which it passes GPUs (0.20.1, cmd/main.go)."""
_OPERATOR, _PLUGIN = "gpu-operator", "nvidia-device-plugin"
_CONTAINERS = "spec.template.spec.containers"
_FLAGS = "devicePlugin.config.flags."
_PASSING = f"{_FLAGS}plugin.deviceListStrategy"
"""Flag that the program sets for hosts, whatever the software does: `_check_device_passing`."""
_COUNTED = "migStrategy"
"""Setting by which GPUs are counted: it is compared also if the stack file doesn't have it."""
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
    yield from _check_overrides(sections, adopted, platform)


def _check_overrides(
    sections: ValidSections, adopted: AdoptedSettings, platform: str
) -> Iterator[Fault]:
    """Yield a fault for each variable or argument that a setting describes otherwise.

    The plugin takes an argument before a variable, and both before its configuration file
    (k8s-device-plugin v0.20.0, api/config/v1/config.go, `UpdateFromCLIFlags`).
    """
    assignments = _of_release(adopted, platform) if adopted.release else _of_objects(adopted)
    for at, name, text, setting in assignments:
        section, *path = setting.split(".")
        holder: Any = None
        declared: Any = sections.sections.get(to_snake(section))
        for key in path:
            holder, declared = declared, getattr(declared, _field(key), None)
        if declared is None or isinstance(declared, Model) or text == _text(declared):
            continue
        if path[-1] == _COUNTED or _field(path[-1]) in holder.model_fields_set:
            shown = "a value that another object has" if text is None else text
            cure = f'write "{path[-1]}: {text}" in {setting.rpartition(".")[0]}'
            yield fault(
                at,
                printable(f"{name}: {shown}", 200),
                f"{_text(declared)}, as {setting} says: the software takes the variable or "
                "argument, not the setting",
                "write the value itself in place of valueFrom" if text is None else cure,
            )


def _field(key: str) -> str:
    return "device_id_strategy" if key == "deviceIDStrategy" else to_snake(key)


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


_Assignment = tuple[Location, str, str | None, str]
"""Place of a variable or argument, its name, its text and the setting that describes it.

The text is None if another object, such as a ConfigMap, has it.
"""


def _of_release(adopted: AdoptedSettings, platform: str) -> Iterator[_Assignment]:
    """Yield the values, and items of lists in values, that override a setting of the platform."""
    release = adopted.release
    if release is None or platform not in _OF_VALUES:
        return
    for at, name, text, setting in _OF_VALUES[platform](plain(release.values), release.version):
        yield ("adopted", "release", "values", *at), name, text, setting


def _of_operator(values: Any, version: str) -> Iterator[_Assignment]:
    for place, by_name in table(_OPERATOR, version).overrides.items():
        settings = {
            name: value.setting
            for name, value in by_name.items()
            if value.setting
            and value.setting.startswith("gpuOperator.")
            and not value.setting.endswith(_PASSING.removeprefix(_FLAGS))
        }
        yield from _known_items(value_at(values, place), tuple(place.split(".")), settings)


def _of_plugin(values: Any, version: str) -> Iterator[_Assignment]:
    """Yield the values of which the device plugin's chart makes variables."""
    for place, value in table(_PLUGIN, version).values.items():
        written = value_at(values, place)
        setting = value.setting or ""
        if written is not None and setting.startswith(_FLAGS) and setting != _PASSING:
            yield (place,), place, _text(written), setting


_OF_VALUES: Mapping[str, Callable[[Any, str], Iterator[_Assignment]]] = {
    "gpu-operator": _of_operator,
    "device-plugin": _of_plugin,
}
"""What reads the values of a release, by platform. HAMi's chart overrides no setting that way."""


def _of_objects(adopted: AdoptedSettings) -> Iterator[_Assignment]:
    """Yield the variables and arguments in manifests of the device plugin that override a flag.

    The plugin is the same program as the operator's.
    """
    known = table(_OPERATOR, f"{SERIES[_OPERATOR][-1]}.0").overrides
    by_kind: dict[str, dict[str, str]] = {"env": {}, "args": {}}
    for kind, settings in by_kind.items():
        for name, value in known[f"devicePlugin.{kind}"].items():
            _, is_flag, flag = (value.setting or "").partition(".devicePlugin.config.flags.")
            setting = f"{_FLAGS}{flag or _COUNTED}"
            counts = value.setting == f"gpuOperator.{_COUNTED}"
            if (is_flag or counts) and setting != _PASSING:
                settings[name] = setting
    for i, item in enumerate(plain(adopted.objects)):
        containers = value_at(item, _CONTAINERS)
        for j, container in enumerate(containers if isinstance(containers, list) else ()):
            at: Location = ("adopted", "objects", i, *_CONTAINERS.split("."), j)
            for key, kind in (("env", "env"), ("args", "args"), ("command", "args")):
                yield from _known_items(value_at(container, key), (*at, key), by_kind[kind])


def _known_items(items: Any, at: Location, settings: Mapping[str, str]) -> Iterator[_Assignment]:
    for i, item in enumerate(items if isinstance(items, list) else ()):
        text: str | None
        if isinstance(item, Mapping):
            name, text = str(item.get("name")), None
            if not item.get("valueFrom"):
                text = str(item.get("value") or "")
        else:
            name, is_assigned, text = str(item).lstrip("-").partition("=")
            if not is_assigned:
                following = items[i + 1 :][:1]
                is_value = bool(following) and not str(following[0]).startswith("-")
                text = str(following[0]) if is_value else "true"
        if setting := settings.get(name):
            yield (*at, i), name, text, setting


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
