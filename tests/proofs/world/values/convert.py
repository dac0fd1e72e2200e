"""Convert a chart's value file into the settings of a stack file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from gpu_cluster.charts.contents import ChartContents
from gpu_cluster.charts.extra_values import merged, plain
from gpu_cluster.charts.own_values import unread
from gpu_cluster.charts.value_table import is_known, table

Json = dict[str, Any]

# Settings of each converted stack: its pools add no taints and labels to their nodes.
POOL: Json = {
    "name": "gpu",
    "nodes": ["gpu-1"],
    "gpusPerNode": 1,
    "taints": [],
    "labels": {},
    "startupTaint": False,
}
PLUGIN_FLAGS = {
    "compatWithCPUManager": ("plugin", "passDeviceSpecs"),
    "migStrategy": ("migStrategy",),
    "failOnInitError": ("failOnInitError",),
    "deviceListStrategy": ("plugin", "deviceListStrategy"),
    "deviceIDStrategy": ("plugin", "deviceIDStrategy"),
    "nvidiaDriverRoot": ("nvidiaDriverRoot",),
    "gdsEnabled": ("gdsEnabled",),
    "mofedEnabled": ("mofedEnabled",),
    "deviceDiscoveryStrategy": ("deviceDiscoveryStrategy",),
}


def convert(chart: ChartContents, version: str, values: Mapping[str, Any]) -> Json:
    """Return stack settings that install a chart with the values of a value file.

    Values that the chart does not read and nulls are left out: unread values have no effect,
    and Pulumi drops nulls.

    Args:
        chart: Content of the chart.
        version: Version of the chart, as the stack file writes it.
        values: Content of the value file.
    """
    ignored = set(unread(chart, values))
    if is_known(chart.name, version):
        ignored |= table(chart.name, version).dead.keys()
    kept = _kept(plain(values), ignored)
    result: Json = {
        "version": "v1",
        "kubernetes": {"context": "c"},
        "pools": [POOL],
        "registry": {"digests": False},
    }
    makers = {
        "nvidia-device-plugin": _plugin,
        "gpu-operator": _operator,
        "dra-driver-nvidia-gpu": _dra,
    }
    section, settings, others = makers[chart.name](chart, kept)
    settings = {"version": version, **settings}
    if not is_known(chart.name, version):
        settings = {"unknownVersion": True, **settings}
    return {**result, **others, section: settings}


def _kept(values: Any, ignored: set[str], prefix: str = "") -> Any:
    if not isinstance(values, dict):
        return values
    result: Json = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if value is None or path in ignored:
            continue
        below = _kept(value, ignored, f"{path}.")
        if below != {} or value == {}:
            result[key] = below
    return result


def _take(values: Json, path: str, default: Any = None) -> Any:
    """Remove the value at a path and return it; also remove sections that become empty."""
    head, _, rest = path.partition(".")
    if head not in values:
        return default
    if not rest:
        return values.pop(head)
    section = values[head]
    result = _take(section, rest, default) if isinstance(section, dict) else default
    if section == {}:
        del values[head]
    return result


def _files(text: Mapping[str, str], default: str) -> tuple[Json, Json]:
    """Return the default configuration file, and the files that node labels select, by name."""
    files = {name: yaml.safe_load(content) or {} for name, content in text.items()}
    first = default if default in files else "default" if "default" in files else ""
    if not first and len(files) == 1:
        first = next(iter(files))
    return files.pop(first, {}), files


def plugin_files(values: Mapping[str, Any]) -> dict[str, Json]:
    """Return the device plugin's configuration files by name; the default's name is empty.

    The GPU Operator overrides `flags.migStrategy`, so this key is left out of its files.
    """
    config = values.get("config") or (values.get("devicePlugin") or {}).get("config") or {}
    text = config.get("map") or config.get("data") or {}
    first, others = _files(text, config.get("default", ""))
    files = {"": first, **others}
    for file in files.values():
        if "data" in config:
            _take(file, "flags.migStrategy")
    return files


def _plugin(chart: ChartContents, values: Json) -> tuple[str, Json, Json]:
    default = _take(values, "config.default", "")
    config, configs = _files(_take(values, "config.map", {}), default)
    _take(values, "config.name")
    for key, path in PLUGIN_FLAGS.items():
        value = _take(values, key)
        for step in reversed(("flags", *path)):
            value = {step: value} if value is not None else None
        config = merged(config, value) if value else config
    gfd, nfd = _take(values, "gfd.enabled", False), _take(values, "nfd.enabled")
    discovers = gfd if nfd is None and "nfd" in chart.subcharts else bool(nfd)
    presence = "nfd" if discovers else "existing-nfd" if gfd else "label"
    settings: Json = {"config": config, "configs": configs, "gfd": gfd, "presence": presence}
    if resources := _take(values, "resources"):
        settings["resources"] = resources
    runtime = _take(values, "runtimeClassName")
    others: Json = {
        "platform": "device-plugin",
        "runtime": {"defaultRuntime": "runc" if runtime else "nvidia"},
        "scheduling": {"tolerations": _take(values, "tolerations", chart.values["tolerations"])},
    }
    return "devicePlugin", {**settings, "extraValues": values}, others


def _operator(chart: ChartContents, values: Json) -> tuple[str, Json, Json]:
    whole = merged(plain(chart.values), values)
    driver = whole["driver"]
    section: Json = {"source": "operator" if driver["enabled"] else "preinstalled"}
    given = {key: _take(values, f"driver.{key}") for key in ("version", "repository", "image")}
    _take(values, "driver.enabled")
    precompiled = _take(values, "driver.usePrecompiled", False)
    if driver["enabled"]:
        named = {
            "version": given["version"],
            "imageRepository": given["repository"],
            "image": given["image"],
            "precompiled": precompiled,
        }
        section |= {key: value for key, value in named.items() if value}
        if _take(values, "driver.useOpenKernelModules"):
            section["kernelModuleType"] = "open"
    settings: Json = {
        "toolkit": whole["toolkit"]["enabled"],
        "nfd": whole["nfd"]["enabled"],
        "migStrategy": whole["mig"]["strategy"],
    }
    exporter = whole["dcgmExporter"].get("serviceMonitor", {}).get("enabled")
    if exporter is not None:
        # This program turns the ServiceMonitor off unless the values turn it on.
        values = merged(values, {"dcgmExporter": {"serviceMonitor": {"enabled": exporter}}})
    for path in ("toolkit.enabled", "nfd.enabled", "mig.strategy"):
        _take(values, path)
    data = _take(values, "devicePlugin.config.data", {})
    name = _take(values, "devicePlugin.config.name")
    default = _take(values, "devicePlugin.config.default", "")
    _take(values, "devicePlugin.config.create")
    if data or name:
        config, configs = _files(data, default)
        for file in (config, *configs.values()):
            # The GPU Operator sets the MIG strategy by a variable, which overrides the file.
            _take(file, "flags.migStrategy")
        settings["devicePlugin"] = {"config": config, "configs": configs}
    variables = {item["name"]: item for item in _take(values, "devicePlugin.env", [])}
    if strategy := variables.pop("DEVICE_LIST_STRATEGY", None):
        # The variable would override the configuration file, where the stack file has it.
        file = settings.setdefault("devicePlugin", {}).setdefault("config", {})
        plugin_flags = file.setdefault("flags", {}).setdefault("plugin", {})
        plugin_flags["deviceListStrategy"] = strategy["value"]
    if variables:
        values.setdefault("devicePlugin", {})["env"] = list(variables.values())
    others: Json = {
        "platform": "gpu-operator",
        "driver": section,
        "runtime": {"cdi": whole["cdi"]["enabled"], "devicesByEnvironment": True},
        "scheduling": {
            "tolerations": _take(
                values, "daemonsets.tolerations", chart.values["daemonsets"]["tolerations"]
            )
        },
    }
    _take(values, "cdi.enabled")
    return "gpuOperator", {**settings, "extraValues": values}, others


def _dra(chart: ChartContents, values: Json) -> tuple[str, Json, Json]:
    _take(values, "gpuResourcesEnabledOverride")
    _take(values, "resources.gpus.enabled")
    domains = _take(values, "resources.computeDomains.enabled", True)
    defaults = chart.values["kubeletPlugin"]["tolerations"]
    tolerations = _take(values, "kubeletPlugin.tolerations", defaults)
    others = {"platform": "dra", "scheduling": {"tolerations": tolerations}}
    return "dra", {"computeDomains": domains, "extraValues": values}, others
