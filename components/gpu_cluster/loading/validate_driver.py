"""Checks between the driver, the software that installs it, and the rest of a stack file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_cluster.platforms.base import Trait
from gpu_cluster.platforms.discovery import named
from gpu_cluster.settings.device_plugin import DevicePluginSettings
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.hosts.driver import (
    DriverSource,
)
from gpu_cluster.settings.platform import NAMES
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault, show


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield all faults of the driver's settings."""
    if sections.platform is not None:
        yield from _check_driver_source(sections, sections.platform)
    yield from _check_excluded_gpus(sections)
    yield from _check_installer(sections)


def _check_driver_source(sections: ValidSections, platform: str) -> Iterator[Fault]:
    """Yield faults for driver sources that don't fit the platform."""
    brings = Trait.BRINGS_DRIVER in named(platform).traits
    for level in sections.gpu_levels:
        driver = level.driver
        if driver is not None and driver.managed_by_operator and not brings:
            able = next((name for name in NAMES if Trait.BRINGS_DRIVER in named(name).traits), "")
            yield fault(
                level.place("driver", "source"),
                f"source operator with platform {platform}",
                f"source operator only with platform {able}",
                f'write "source: preinstalled", or "platform: {able}"',
            )
        if driver is not None and driver.managed_by_daemonset and brings:
            yield fault(
                level.place("driver", "source"),
                f"source daemonset with platform {platform}",
                "another source: the operator has its own driver container",
                'write "source: operator"',
            )
    drivers = [level.driver for level in sections.gpu_levels]
    sources = sorted({driver.source for driver in drivers if driver is not None})
    if (
        "driverInstaller" in sections.given
        and drivers  # A pool that can't be read says nothing about its driver.
        and None not in drivers
        and DriverSource.DAEMONSET not in sources
    ):
        yield fault(
            ("driverInstaller",),
            f"a section driverInstaller with driver.source {' and '.join(sources)}",
            "driverInstaller only with driver.source daemonset",
            'remove driverInstaller, or write "source: daemonset"',
        )


def _check_excluded_gpus(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for GPUs that are excluded by UUID without a driver on a host of the stack."""
    hosts = {host.node for host in sections.hosts.values()}
    drivers = {level.host.node: level.driver for level in sections.host_levels if level.host}
    for i, pool in sections.pools.items():
        for node, devices in pool.unhealthy_devices.items():
            if not devices.uuid:
                continue
            at = ("pools", i, "unhealthyDevices", node, "uuid")
            driver = drivers.get(node)
            if node not in hosts:
                yield fault(
                    at,
                    f"UUIDs of {show(node)}, which isn't a host of this stack",
                    "a host whose driver is configured to exclude them",
                    "declare the host",
                )
            elif driver is not None and driver.in_container:
                yield fault(
                    at,
                    f"UUIDs with driver.source {driver.source}",
                    "a driver of the host, which reads the host's modprobe.d",
                    'write "source: preinstalled", and install the driver on the host',
                )


def _check_installer(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for missing or contradicting settings of the driver's DaemonSets."""
    installer = sections.section(DriverInstallerSettings)
    if installer is None:
        return
    levels = [
        level
        for level in sections.gpu_levels
        if level.driver is not None and level.driver.managed_by_daemonset
    ]
    yield from _installer_images([level.pool.name for level in levels if level.pool], installer)
    for level in levels:
        declared = level.driver.version if level.driver is not None else None
        if level.pool and installer.version_of(level.pool.name, declared) is None:
            yield fault(
                level.place("driver", "version"),
                f"no driver version for pool {level.pool.name}",
                "the version that the installer downloads",
                'write "version: 595.91.07", or one below driverInstaller.pools',
            )
    if "plugin_memory" in installer.model_fields_set:
        yield from _plugin_memory(sections)


def _installer_images(pools: Iterable[str], installer: DriverInstallerSettings) -> Iterator[Fault]:
    """Yield faults for operating systems without an installer image.

    There is no default image: kubespray's images are of 2018 and for systems of that time, and one
    of them has no digest.
    """
    for system in sorted({installer.system_of(name) for name in pools} - set(installer.images)):
        yield fault(
            ("driverInstaller", "images"),
            f"no image for {system}",
            "an installer for the system that the nodes run, by digest: it runs privileged",
            f"add images.{system}, or let NVIDIA's driver container come by the GPU Operator "
            "(platform gpu-operator, driver.source operator)",
        )


def _plugin_memory(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for `driverInstaller.pluginMemory` without the plugin or set twice."""
    at = ("driverInstaller", "pluginMemory")
    takes = (
        sections.platform is None or Trait.TAKES_PLUGIN_MEMORY in named(sections.platform).traits
    )
    if not takes:
        yield fault(
            at,
            f"pluginMemory with platform {sections.platform}",
            "pluginMemory only with platform device-plugin, whose memory it is",
            'remove pluginMemory, or write "platform: device-plugin"',
        )
    plugin = sections.section(DevicePluginSettings)
    plugin_resources = plugin.resources if plugin is not None else None
    if plugin_resources and any("memory" in amounts for amounts in plugin_resources.values()):
        yield fault(
            at,
            "pluginMemory, and memory in devicePlugin.resources",
            "one of them: both are the plugin's memory",
            "remove pluginMemory",
        )
