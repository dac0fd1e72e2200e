"""Settings of the plugin that are allowed, and will probably not do what was meant."""

from __future__ import annotations

from collections.abc import Iterator

from components.settings.device_plugin import DevicePlugin
from components.settings.hosts.runtime import DefaultRuntime, Runtime
from components.settings.plugin_flags import CDI
from policies.faults import Fault, fault


def advice(plugin: DevicePlugin, runtime: Runtime) -> Iterator[Fault]:
    """Advise on devices by CDI, beside a runtime that hands them over otherwise."""
    strategies = plugin.config.flags.plugin.device_list_strategy
    by_cdi = [strategy for strategy in strategies if strategy in CDI]
    if by_cdi and not runtime.cdi:
        yield fault(
            ("runtime", "cdi"),
            f"false, with deviceListStrategy {by_cdi[0]}",
            "CDI in the container runtime",
            'write "cdi: true"',
        )
    if by_cdi and runtime.default_runtime is DefaultRuntime.NVIDIA:
        yield fault(
            ("runtime", "defaultRuntime"),
            f"nvidia, with deviceListStrategy {by_cdi[0]}",
            "runc: with CDI the engine itself hands devices to containers",
            'write "defaultRuntime: runc"',
        )
