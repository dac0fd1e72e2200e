"""The valid sections of a stack file, as input for the checks that compare several sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.base.model import Model
from components.settings.adopted import AdoptedSettings
from components.settings.device_plugin import DevicePluginSettings
from components.settings.dra import DraSettings
from components.settings.driver_installer import DriverInstallerSettings
from components.settings.gpu_manager import GpuManagerSettings
from components.settings.gpu_operator import GpuOperatorSettings
from components.settings.hosts.driver import DriverSettings
from components.settings.hosts.host import Host
from components.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from components.settings.hosts.runtime import RuntimeSettings
from components.settings.monitoring import MonitoringSettings
from components.settings.nodes.pool import Pool
from components.settings.nodes.scheduling import SchedulingSettings
from components.settings.validation import ValidationSettings

SECTIONS: Mapping[str, type[Model]] = {
    "adopted": AdoptedSettings,
    "dra": DraSettings,
    "gpu_manager": GpuManagerSettings,
    "kubernetes_packages": KubernetesPackagesSettings,
    "driver_installer": DriverInstallerSettings,
    "monitoring": MonitoringSettings,
    "scheduling": SchedulingSettings,
    "validation": ValidationSettings,
}
"""Sections without a separate attribute in `ValidSections`, by their names in `Cluster`."""


@dataclass(frozen=True)
class ValidSections:
    """The sections of a stack file that passed their own validation.

    Attributes:
        pools: Pools by their position in the document.
        hosts: Hosts by their position in the document.
        platform: Name of the platform, or None if the name is unknown.
        driver: Section `driver`, or None if it is invalid.
        given: Keys that the document contains.
        complete: True if every pool is valid.
        maintenance: Names and ranges of nodes in maintenance. Empty if a host is invalid, because
            the name of that host is then unknown.
        runtime: Section `runtime`, or None if it is invalid.
        device_plugin: Section `devicePlugin`, or None if it is invalid.
        gpu_operator: Section `gpuOperator`, or None if it is invalid.
        sections: The valid sections of `SECTIONS`, by name.
    """

    pools: Mapping[int, Pool]
    hosts: Mapping[int, Host]
    platform: str | None
    driver: DriverSettings | None
    given: frozenset[str]
    complete: bool = True
    maintenance: tuple[str, ...] = ()
    runtime: RuntimeSettings | None = None
    device_plugin: DevicePluginSettings | None = None
    gpu_operator: GpuOperatorSettings | None = None
    sections: Mapping[str, Model] = field(default_factory=dict)

    def section(self, name: str) -> Model | None:
        """Return a section by its name in `Cluster`, or None if it is invalid or unknown."""
        model = getattr(self, name, None) or self.sections.get(name)
        return model if isinstance(model, Model) else None
