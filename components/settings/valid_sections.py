"""The valid parts of a document: what the rules between parts read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.base.model import Model
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
    "dra": DraSettings,
    "gpu_manager": GpuManagerSettings,
    "kubernetes_packages": KubernetesPackagesSettings,
    "driver_installer": DriverInstallerSettings,
    "monitoring": MonitoringSettings,
    "scheduling": SchedulingSettings,
    "validation": ValidationSettings,
}
"""Sections that rules need beside those with a field of their own, by their names in `Cluster`."""


@dataclass(frozen=True)
class ValidSections:
    """The parts that could be read.

    Attributes:
        pools: by position; `hosts` likewise.
        platform: the platform's name; None where it is unknown.
        given: keys that the document has.
        complete: no pool was refused.
        maintenance: names and ranges; none where a host was refused, whose name is unknown.
        sections: those of `SECTIONS`, by name.
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
        """A section by its name in `Cluster`; None where it isn't valid, or not read here."""
        model = getattr(self, name, None) or self.sections.get(name)
        return model if isinstance(model, Model) else None
