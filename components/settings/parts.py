"""The valid parts of a document: what the rules between parts read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.driver_daemonset.settings import DriverInstaller
from components.hosts.settings.driver import Driver
from components.hosts.settings.host import Host
from components.hosts.settings.kubernetes_packages import KubernetesPackages
from components.hosts.settings.runtime import Runtime
from components.monitoring.settings import Monitoring
from components.nodes.settings.pool import Pool
from components.nodes.settings.scheduling import Scheduling
from components.platforms.device_plugin.settings import DevicePlugin
from components.platforms.dra.settings import Dra
from components.platforms.gpu_manager.settings import GpuManager
from components.platforms.gpu_operator.settings import GpuOperator
from components.settings.base.model import Model
from components.validation.settings import Validation

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
