"""Checks between the driver, the software that installs it, and the rest of a stack file."""

from __future__ import annotations

from collections.abc import Iterator

from components.platforms.base import Trait
from components.platforms.discovery import named
from components.settings.driver_installer import DriverInstallerSettings
from components.settings.hosts.driver import DriverSettings, KernelModule
from components.settings.platform import NAMES
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, fault, show

_CONTAINER_DRIVER = {
    "precompiled": "precompiled",
    "resource": "resource",
    "image_repository": "imageRepository",
    "image": "image",
    "digest": "digest",
}


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield all faults of the driver's settings."""
    if sections.platform is not None:
        yield from _source(sections, sections.platform)
    yield from _container(sections)
    yield from _excluded(sections)
    yield from _installer(sections)


def _source(sections: ValidSections, platform: str) -> Iterator[Fault]:
    """Yield faults for a driver source that does not fit the platform."""
    managed = sections.driver is not None and sections.driver.managed_by_operator
    brings = Trait.BRINGS_DRIVER in named(platform).traits
    if managed and not brings:
        able = next((name for name in NAMES if Trait.BRINGS_DRIVER in named(name).traits), "")
        yield fault(
            ("driver", "source"),
            f"operator with platform {platform}",
            f"driver source operator only with platform {able}",
            f'write "source: preinstalled", or "platform: {able}"',
        )
    by_daemonset = sections.driver is not None and sections.driver.managed_by_daemonset
    if by_daemonset and brings:
        yield fault(
            ("driver", "source"),
            f"daemonset with platform {platform}",
            "one that brings the driver: the operator has its own driver container",
            'write "source: operator"',
        )
    if "driverInstaller" in sections.given and sections.driver is not None and not by_daemonset:
        yield fault(
            ("driverInstaller",),
            f"a section driverInstaller with driver.source {sections.driver.source}",
            "driverInstaller only with driver.source daemonset",
            'remove driverInstaller, or write "source: daemonset"',
        )


def _container(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for settings that apply only to a driver container."""
    driver = sections.driver
    if driver is None or driver.managed_by_operator:
        return
    if driver.kernel_module_type is not KernelModule.AUTO and not driver.by_preparation:
        yield fault(
            ("driver", "kernelModuleType"),
            f"{driver.kernel_module_type} with source {driver.source}",
            "this only for a driver that we bring",
            "remove it",
        )
    for name, alias in _CONTAINER_DRIVER.items():
        if getattr(driver, name) != getattr(DriverSettings(), name):
            yield fault(
                ("driver", alias),
                f"{show(getattr(driver, name))} with source {driver.source}",
                "this only for a driver that the GPU Operator brings",
                'remove it, or write "source: operator"',
            )


def _excluded(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for GPUs that are excluded by UUID without a driver on a host of the stack."""
    hosts = {host.node for host in sections.hosts.values()}
    driver = sections.driver or DriverSettings()
    for i, pool in sections.pools.items():
        for node, devices in pool.unhealthy_devices.items():
            if not devices.uuid:
                continue
            at = ("pools", i, "unhealthyDevices", node, "uuid")
            if node not in hosts:
                yield fault(
                    at,
                    f"UUIDs of {show(node)}, which isn't a host of this stack",
                    "a host whose driver is configured to exclude them",
                    "declare the host, or name the GPU by index",
                )
            elif driver.managed_by_operator or driver.managed_by_daemonset:
                yield fault(
                    at,
                    f"UUIDs with driver.source {driver.source}",
                    "a driver of the host, which reads the host's modprobe.d",
                    "name the GPU by index, or install the driver on the host",
                )


def _installer(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults for missing or contradicting settings of the driver's DaemonSet."""
    driver, installer = sections.driver, sections.sections.get("driver_installer")
    if not isinstance(installer, DriverInstallerSettings):
        return
    if driver is not None and driver.managed_by_daemonset:
        yield from _installer_images(sections, installer)
        for pool in sections.pools.values():
            if pool.gpus_per_node and installer.version_of(pool.name, driver.version) is None:
                yield fault(
                    ("driver", "version"),
                    f"no driver version for pool {pool.name}",
                    "the version that the installer downloads",
                    'write "version: 595.91.07", or one below driverInstaller.pools',
                )
    if "plugin_memory" in installer.model_fields_set:
        yield from _plugin_memory(sections)


def _installer_images(
    sections: ValidSections, installer: DriverInstallerSettings
) -> Iterator[Fault]:
    """Yield faults for operating systems without an installer image.

    There is no default image: kubespray's images are of 2018 and for systems of that time, and one
    of them has no digest.
    """
    pools = [pool.name for pool in sections.pools.values() if pool.gpus_per_node]
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
    own = sections.device_plugin.resources if sections.device_plugin is not None else None
    if own and any("memory" in part for part in own.values()):
        yield fault(
            at,
            "pluginMemory, and memory in devicePlugin.resources",
            "one of them: both are the plugin's memory",
            "remove pluginMemory",
        )
