"""Namespaces that a stack creates and deletes."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_cluster.platforms.base import Platform
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.monitoring import MonitoringSettings
from gpu_cluster.settings.validation import ValidationSettings


@dataclass(frozen=True)
class OwnNamespace:
    """A namespace of the stack; pods of a privileged namespace mount paths of the host."""

    name: str
    privileged: bool = True


def own_namespaces(
    platform: Platform,
    validation: ValidationSettings,
    installer: DriverInstallerSettings | None,
    monitoring: MonitoringSettings | None,
) -> tuple[OwnNamespace, ...]:
    """Return every namespace that the stack creates."""
    namespaces = [OwnNamespace(validation.namespace, privileged=False)]
    if platform.installation.own_namespace:
        namespaces.append(OwnNamespace(platform.installation.namespace))
    if installer is not None:
        namespaces.append(OwnNamespace(installer.namespace))
    if monitoring is not None:
        namespaces.append(OwnNamespace(monitoring.namespace))
    return tuple(namespaces)
