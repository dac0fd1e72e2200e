"""Checks of the device plugin's settings against its chart and the rest of the stack file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.base.nearness import nearest
from gpu_cluster.charts.value_table import nearest_series
from gpu_cluster.platforms.device_plugin import device_lists
from gpu_cluster.platforms.feature_labels import written_twice
from gpu_cluster.settings.device_plugin import CONFIG_LABEL, DevicePluginSettings, Presence
from gpu_cluster.settings.gpu_operator import GpuOperatorSettings
from gpu_cluster.settings.hosts.runtime import DefaultRuntime, RuntimeSettings
from gpu_cluster.settings.plugin_configuration import DevicePluginConfig
from gpu_cluster.settings.plugin_flags import CDI, AllocationPolicy, DeviceIdStrategy, MigStrategy
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, Location, fault, show

_SECTION = "devicePlugin"

# Environment variable that no plugin of NVIDIA reads. It belongs to the
# plugin of Alibaba Cloud's Container Service (its page "GPU Device Plugin-related operations").
_FOREIGN = "CHECKPOINT_DEVICE_ID_STRATEGY"


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield all faults in the settings of the device plugin."""
    plugin = sections.section(DevicePluginSettings)
    if plugin is None:
        return
    yield from labels(sections, plugin.configs)
    yield from _check_presence(plugin)
    yield from _check_left_out_gpus(sections, plugin)
    yield from _check_packed_sharing(plugin)
    yield from device_lists.validate(sections, plugin)
    yield from _check_files(sections, plugin, (_SECTION,))
    yield from _check_plugin_values(plugin)
    if plugin.presence is not Presence.LABEL:
        yield from written_twice(sections, 'write "presence: label" in devicePlugin')


def warnings(sections: ValidSections) -> Iterator[Fault]:
    """Yield warnings about unused configuration files and about runtimes without CDI."""
    plugin = sections.section(DevicePluginSettings)
    if plugin is None:
        return
    selected = {labels.labels.get(CONFIG_LABEL) for labels in sections.labels()}
    for name in plugin.configs:
        if name not in selected:
            yield fault(
                (_SECTION, "configs", name),
                "a configuration that no pool selects",
                f"a pool with the label {CONFIG_LABEL}: {name}, or nodes that others label so",
                "add the label to a pool, or write the file as devicePlugin.config, which "
                "applies to all other nodes",
            )
    strategies = plugin.config.flags.plugin.device_list_strategy
    by_cdi = [strategy for strategy in strategies if strategy in CDI]
    for level in sections.gpu_levels if by_cdi else ():
        runtime = level.runtime or RuntimeSettings()
        if not runtime.cdi:
            yield fault(
                level.place("runtime", "cdi"),
                f"false, with deviceListStrategy {by_cdi[0]}",
                "CDI in the container runtime",
                'write "cdi: true"',
            )
        if runtime.default_runtime is DefaultRuntime.NVIDIA:
            yield fault(
                level.place("runtime", "default_runtime"),
                f"nvidia, with deviceListStrategy {by_cdi[0]}",
                "runc: with CDI the engine itself hands devices to containers",
                'write "defaultRuntime: runc"',
            )


def labels(sections: ValidSections, configs: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield faults for labels of pools and nodes that select an unknown plugin configuration.

    With an unknown name the plugin would keep its previous configuration.
    """
    for labels in sections.labels():
        name = labels.own.get(CONFIG_LABEL)
        if name is not None and name not in configs:
            config_names = ", ".join(configs) or "none; the default needs no label"
            yield fault(
                (*labels.location, CONFIG_LABEL),
                f"the configuration {show(name)}, which does not exist",
                f"a name of `configs`: {config_names}",
                f'write "{nearest(name, configs)}"' if configs else "remove it",
            )


def _check_left_out_gpus(sections: ValidSections, plugin: DevicePluginSettings) -> Iterator[Fault]:
    """Yield faults for pools with excluded GPUs that the plugin would advertise nevertheless.

    The plugin numbers only the devices that it sees, so its index can belong to another GPU.
    """
    for i, pool in sections.pools.items():
        nodes = [node for node, devices in pool.unhealthy_devices.items() if devices.index]
        if nodes and "affinity" in plugin.extra_values:
            yield fault(
                (_SECTION, "extraValues", "affinity"),
                f"an affinity, with GPUs to leave out on {nodes[0]}",
                "the affinity of this program, which keeps the chart's plugin off nodes with a "
                "plugin of their own: two plugins would assign the same GPU twice",
                "remove it, or write `uuid` in place of `index` under unhealthyDevices",
            )
        for node in nodes:
            flags = plugin.config_named(sections.labels_of(pool, node).get(CONFIG_LABEL)).flags
            if flags.plugin.device_id_strategy is DeviceIdStrategy.INDEX:
                yield fault(
                    ("pools", i, "unhealthyDevices", node),
                    "GPUs to leave out, with deviceIDStrategy index",
                    "deviceIDStrategy uuid: by index a container would get the GPU that is left "
                    "out",
                    'write "deviceIDStrategy: uuid" in the configuration of these nodes',
                )


def _check_presence(plugin: DevicePluginSettings) -> Iterator[Fault]:
    if plugin.gfd and plugin.presence is Presence.LABEL:
        yield fault(
            (_SECTION, "presence"),
            "label, with gfd: true",
            "Node Feature Discovery, which turns what gfd finds into labels",
            'write "presence: nfd", or "presence: existing-nfd" if the cluster has it',
        )


def _check_packed_sharing(plugin: DevicePluginSettings) -> Iterator[Fault]:
    if nearest_series("nvidia-device-plugin", plugin.version) != "0.19":
        return
    for name, file in {"config": plugin.config, **plugin.configs}.items():
        if file.flags.plugin.shared_devices_allocation_policy is not None:
            at = ("config",) if name == "config" else ("configs", name)
            yield fault(
                (_SECTION, *at, "flags", "plugin", "sharedDevicesAllocationPolicy"),
                f"{AllocationPolicy.PACKED} or {AllocationPolicy.DISTRIBUTED} with"
                f" chart {plugin.version}",
                "a flag that this plugin has: it came with 0.20.0",
                'write "version: 0.20.1", or remove it',
            )


def _check_files(
    sections: ValidSections, plugin: DevicePluginSettings, at: Location
) -> Iterator[Fault]:
    """Yield faults for MIG strategies and for configuration files with differing shared paths."""
    for name, file in plugin.configs.items():
        for key in ("mps_root", "nvidia_driver_root"):
            if getattr(file.flags, key) != getattr(plugin.config.flags, key):
                alias = {"mps_root": "mpsRoot", "nvidia_driver_root": "nvidiaDriverRoot"}[key]
                yield fault(
                    (*at, "configs", name, "flags", alias),
                    show(getattr(file.flags, key)),
                    f"the same {alias} as in config: the chart mounts one folder for all nodes",
                    f"write {show(getattr(plugin.config.flags, key))}",
                )
    yield from _check_mig(sections, lambda label: plugin.config_named(label).flags.mig_strategy)


def _check_mig(sections: ValidSections, strategy: Any) -> Iterator[Fault]:
    for labels in sections.labels():
        pool, chosen = labels.pool, strategy(labels.labels.get(CONFIG_LABEL))
        place = (*labels.location, CONFIG_LABEL) if labels.node else ("pools", labels.index, "mig")
        if labels.node and CONFIG_LABEL not in labels.own:
            continue
        if pool.mig and chosen is MigStrategy.NONE:
            yield fault(
                place,
                "MIG devices, with migStrategy none",
                "migStrategy single or mixed for this pool: its devices are not offered otherwise",
                'write "migStrategy: mixed" in the flags of its configuration, or remove it',
            )
        if len(pool.mig) > 1 and chosen is MigStrategy.SINGLE:
            yield fault(
                place,
                f"{len(pool.mig)} profiles, with migStrategy single",
                "one profile on all GPUs of a node",
                f'write "migStrategy: mixed" in the flags of its configuration, or keep '
                f"{next(iter(pool.mig))} alone",
            )


def _check_plugin_values(plugin: DevicePluginSettings) -> Iterator[Fault]:
    if not plugin.extra_values:
        return
    from gpu_cluster.charts.value_check import check
    from gpu_cluster.charts.value_table import table

    at = (_SECTION, "extraValues")
    known_values = table("nvidia-device-plugin", plugin.version)
    yield from check(known_values, plugin.extra_values, at, complete=not plugin.unknown_version)
    yield from foreign_environment(plugin.extra_values, at)
    yield from turned_off(plugin.extra_values, at)


def turned_off(values: Mapping[str, Any], at: Location) -> Iterator[Fault]:
    """Yield a fault if `extraValues` turns the device plugin off."""
    section = values.get("devicePlugin")
    if isinstance(section, Mapping) and section.get("enabled") is False:
        yield fault(
            (*at, "devicePlugin", "enabled"),
            "false",
            "true: nothing else advertises the GPUs of the pools",
            'remove it, or write "gpusPerNode: 0" for pools that advertise no GPUs',
        )


def operator_files(sections: ValidSections, operator: GpuOperatorSettings) -> Iterator[Fault]:
    """Yield faults for plugin settings that the GPU Operator overrides.

    The operator sets environment variables of the plugin, which take precedence over its file.
    """
    at = ("gpuOperator", "devicePlugin")
    section = operator.device_plugin
    yield from _check_mig(sections, lambda _: operator.mig_strategy)
    files: dict[Location, DevicePluginConfig] = {}
    if section is not None and "config" in section.model_fields_set:
        files[(*at, "config")] = section.config
    for name, file in section.configs.items() if section else ():
        files[(*at, "configs", name)] = file
    for location, file in files.items():
        flags, set_fields = file.flags, file.flags.model_fields_set
        if "mig_strategy" in set_fields and flags.mig_strategy is not operator.mig_strategy:
            yield fault(
                (*location, "flags", "migStrategy"),
                f"{flags.mig_strategy}, with gpuOperator.migStrategy {operator.mig_strategy}",
                "the operator's migStrategy, which the operator sets in the plugin's environment",
                "remove it here, or change gpuOperator.migStrategy",
            )
        cdi = any(level.runtime and level.runtime.cdi for level in sections.gpu_levels)
        if cdi and "device_list_strategy" in flags.plugin.model_fields_set:
            yield fault(
                (*location, "flags", "plugin", "deviceListStrategy"),
                ", ".join(flags.plugin.device_list_strategy),
                "no deviceListStrategy with runtime.cdi: the operator sets "
                "cdi-annotations,cdi-cri itself",
                "remove it here",
            )


def foreign_environment(values: Mapping[str, Any], at: Location) -> Iterator[Fault]:
    """Yield faults for environment variables that only another vendor's plugin reads."""
    for key, item in values.items():
        location = (*at, str(key))
        if isinstance(item, Mapping):
            yield from foreign_environment(item, location)
        elif key == "env" and isinstance(item, list | tuple):
            for index, entry in enumerate(item):
                if isinstance(entry, Mapping) and entry.get("name") == _FOREIGN:
                    yield fault(
                        (*location, index),
                        _FOREIGN,
                        "a variable that NVIDIA's plugin reads: this one is read by the plugin of"
                        " Alibaba Cloud's Container Service only",
                        "remove it, and write deviceIDStrategy: index in the plugin's "
                        "configuration; "
                        "containers then get indexes, kubelet's checkpoint still keeps UUIDs",
                    )
