"""The valid parts of a document: what the rules between parts read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.base.model import Model
from components.settings.device_plugin import DevicePlugin
from components.settings.dra import Dra
from components.settings.driver_installer import DriverInstaller
from components.settings.gpu_manager import GpuManager
from components.settings.gpu_operator import GpuOperator
from components.settings.hosts.driver import Driver
from components.settings.hosts.host import Host
from components.settings.hosts.kubernetes_packages import KubernetesPackages
from components.settings.hosts.runtime import Runtime
from components.settings.monitoring import Monitoring
from components.settings.nodes.pool import Pool
from components.settings.nodes.scheduling import Scheduling
from components.settings.validation import Validation

SECTIONS: Mapping[str, type[Model]] = {
    "dra": Dra,
    "gpu_manager": GpuManager,
    "kubernetes_packages": KubernetesPackages,
    "driver_installer": DriverInstaller,
    "monitoring": Monitoring,
    "scheduling": Scheduling,
    "validation": Validation,
}
"""Sections that rules need beside those with a field of their own, by their names in `Cluster`."""


@dataclass(frozen=True)
class Parts:
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
    driver: Driver | None
    given: frozenset[str]
    complete: bool = True
    maintenance: tuple[str, ...] = ()
    runtime: Runtime | None = None
    device_plugin: DevicePlugin | None = None
    gpu_operator: GpuOperator | None = None
    sections: Mapping[str, Model] = field(default_factory=dict)

    def section(self, name: str) -> Model | None:
        """A section by its name in `Cluster`; None where it isn't valid, or not read here."""
        model = getattr(self, name, None) or self.sections.get(name)
        return model if isinstance(model, Model) else None
