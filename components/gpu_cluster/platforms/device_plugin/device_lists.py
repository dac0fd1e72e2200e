"""Pass a container's GPUs by volume mounts if the hosts ignore NVIDIA_VISIBLE_DEVICES.

With the default settings of NVIDIA's container toolkit, every container gets the GPUs that
NVIDIA_VISIBLE_DEVICES names, and most CUDA images name all GPUs. Hosts that this program prepares
accept the variable only from containers with the capability SYS_ADMIN
(`runtime.devicesByEnvironment`), and accept mounts, which only a device plugin or a hostPath volume
can create. The chart gives SYS_ADMIN to the plugin and to GPU feature discovery if their
configuration is a ConfigMap (chart 0.20.0, templates/_helpers.tpl, requiresCapSysAdmin).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.settings.device_plugin import DevicePluginSettings
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.plugin_flags import DeviceListStrategy
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault

Json = Mapping[str, Any]
_GPU_ROLES = tuple(role.value for role in Role if role.has_gpus)


def by_mounts(document: Json) -> bool:
    """Return True if the hosts will ignore NVIDIA_VISIBLE_DEVICES in unprivileged containers.

    Args:
        document: Content of the stack file before its validation, with the overrides of pools and
            hosts written out.
    """
    hosts = document.get("hosts")
    runtimes = [
        host.get("runtime", document.get("runtime"))
        for host in (hosts if isinstance(hosts, list) else ())
        if isinstance(host, Mapping) and host.get("role", Role.GPU_WORKER) in _GPU_ROLES
    ]
    opened = [
        isinstance(runtime, Mapping) and runtime.get("devicesByEnvironment") is True
        for runtime in runtimes
    ]
    return not all(opened)


def filled(plugin: Json) -> Json:
    """Return section `devicePlugin` with strategy `volume-mounts` where none is configured.

    Values that aren't mappings are not changed; the settings' models reject such values later.
    """
    named_files = plugin.get("configs", {})
    if isinstance(named_files, Mapping) and named_files:
        plugin = {
            **plugin,
            "configs": {name: _fill_strategy(file) for name, file in named_files.items()},
        }
    return {**plugin, "config": _fill_strategy(plugin.get("config", {}))}


def _fill_strategy(file: Any) -> Any:
    if not isinstance(file, Mapping):
        return file
    flags = file.get("flags", {})
    if not isinstance(flags, Mapping):
        return file
    plugin_flags = flags.get("plugin", {})
    if not isinstance(plugin_flags, Mapping):
        return file
    plugin_flags = {"deviceListStrategy": DeviceListStrategy.VOLUME_MOUNTS.value, **plugin_flags}
    return {**file, "flags": {**flags, "plugin": plugin_flags}}


def validate(sections: ValidSections, plugin: DevicePluginSettings) -> Iterator[Fault]:
    """Yield faults for plugin configurations that would give pods on prepared hosts no GPU."""
    runtimes = [level.runtime for level in sections.host_levels if level.has_gpus]
    if all(runtime is None or runtime.devices_by_environment for runtime in runtimes):
        return
    for name, file in {"": plugin.config, **plugin.configs}.items():
        if DeviceListStrategy.ENVVAR in file.flags.plugin.device_list_strategy:
            at = ("configs", name) if name else ("config",)
            yield fault(
                ("devicePlugin", *at, "flags", "plugin", "deviceListStrategy"),
                "envvar, with runtime.devicesByEnvironment false",
                "volume-mounts or CDI: hosts give no unprivileged container GPUs by a variable",
                "remove it",
            )
