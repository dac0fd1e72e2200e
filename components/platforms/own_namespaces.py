"""The namespaces that a stack makes and takes away."""

from __future__ import annotations

from dataclasses import dataclass

from components.platforms.base import Platform
from components.settings.driver_installer import DriverInstallerSettings
from components.settings.monitoring import MonitoringSettings
from components.settings.validation import ValidationSettings


@dataclass(frozen=True)
class OwnNamespace:
    """One of them. `privileged`: its pods mount paths of the host and see all GPUs."""

    name: str
    privileged: bool = True


def own_namespaces(
    platform: Platform,
    validation: ValidationSettings,
    installer: DriverInstallerSettings | None,
    monitoring: MonitoringSettings | None,
) -> tuple[OwnNamespace, ...]:
    """Return every namespace of a configuration that the stack makes."""
    namespaces = [OwnNamespace(validation.namespace, privileged=False)]
    if platform.own_namespace:
        namespaces.append(OwnNamespace(platform.namespace))
    if installer is not None:
        namespaces.append(OwnNamespace(installer.namespace))
    if monitoring is not None:
        namespaces.append(OwnNamespace(monitoring.namespace))
    return tuple(namespaces)
