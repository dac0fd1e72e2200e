"""What a platform is: the one object that everything asks about how GPUs are served.

Pure: it answers by plain values, and `components.release.component` declares them. A platform is
a folder here with `platform.py`, in which `PLATFORM` is its class (`docs/platforms.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from components.host_facts import HostFacts
from components.kubernetes.resources import GPU
from components.platforms.findings import Surroundings
from components.platforms.requests import Expected
from components.platforms.site import Site
from components.settings.hosts.runtime import DefaultRuntime
from components.settings.nodes.pool import Pool
from components.settings.valid_sections import ValidSections
from policies.faults import Fault

Json = dict[str, Any]

RUNTIME_CLASS = "nvidia"


class Delivery(StrEnum):
    """How a container gets the devices that its pod was given.

    `runtime`: the NVIDIA runtime, by RuntimeClass or as the default. `cdi`: the engine itself.
    `plugin`: the platform mounts devices and libraries, and wants plain runc.
    """

    RUNTIME = "runtime"
    CDI = "cdi"
    PLUGIN = "plugin"


@dataclass(frozen=True)
class Offer:
    """One extended resource of a node.

    Attributes:
        resource: its name.
        count: how much of it a node offers.
        devices: how many GPUs or MIG devices are behind it; fewer than ``count`` where shared.
        unit: how much of it is one device.
    """

    resource: str
    count: int
    devices: int
    unit: int = 1


@dataclass(frozen=True, kw_only=True)
class ExtraObject:
    """An object that a platform has beside its release.

    Attributes:
        key: end of its resource's name in the state; stable, and of one platform only.
        manifest: the object.
        after: whether it is made after the release.
        secret: name of the stack's secret that `content` fills the object's `stringData` from;
            without that secret the object is left to others. Empty: it needs none.
        content: `stringData` from the secret's value.
        without: what a person should do where the stack has no such secret; empty: nothing.
        source: key of the part whose `spec` `data` fills this one's `data` from; empty: none.
        data: `data` from that spec.
    """

    key: str
    manifest: Json
    after: bool = False
    secret: str = ""
    content: Callable[[str], dict[str, str]] = field(default=lambda _: {})
    without: str = ""
    source: str = ""
    data: Callable[[Json], dict[str, str]] = field(default=lambda _: {})


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program of `components.programs` that runs before the release comes and after it goes.

    Attributes:
        key: end of its resource's name in the state; stable, and of one platform only.
        name: of the program, and `create` and `delete` its actions.
        request: what it reads (`components.platforms.requests`).
        objects: objects that it keeps, or that its platform does nothing without: they must be
            there.
    """

    key: str
    name: str
    create: str
    delete: str
    request: object
    objects: tuple[Expected, ...] = ()


@dataclass(frozen=True)
class RunningPlugin:
    """How NVIDIA's device plugin offers the GPUs of a pool's nodes.

    Attributes:
        mig_strategy: none, single or mixed.
        replicas: how often it offers one GPU.
        mps: whether pods share a GPU by MPS, not in turns.
        renamed: whether a shared GPU has another resource's name.
    """

    mig_strategy: str
    replicas: int
    mps: bool
    renamed: bool


@dataclass(frozen=True)
class Servers:
    """The pods that give GPUs out: no two platforms have them on a node.

    Attributes:
        pods: their label selector.
        daemon_set: name of their DaemonSet in the release.
        beside: whether some of the platform's `sections` are DaemonSets of such pods, too.
    """

    pods: str
    daemon_set: str
    beside: bool = False


@dataclass(frozen=True)
class PlatformMigLayouts:
    """How a platform divides GPUs by a label of their node.

    Attributes:
        pods: label selector of the pods that divide them.
        of: name of a pool's layout; empty: none is declared.
    """

    pods: str
    of: Callable[[Pool], str]


class Trait(StrEnum):
    """What is true of some platforms, and matters to settings or hosts."""

    BRINGS_DRIVER = "can bring the driver (`driver.source: operator`)"
    SHARES_CARDS = "a pod can have a part of a card"
    TAKES_PLUGIN_MEMORY = "`driverInstaller.pluginMemory` is its memory"
    WANTS_CGROUP_V1 = "works with cgroup v1 alone"


@dataclass(frozen=True)
class Engines:
    """What a platform wants of the nodes' container engines, and does to them.

    Attributes:
        need_cdi: whether pods get their GPUs by CDI of the engine.
        configured: whether the platform itself puts the NVIDIA runtime into them.
        runtime_classes: RuntimeClasses that come with it.
    """

    need_cdi: bool
    configured: bool = False
    runtime_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What a platform measures itself, beside DCGM.

    Attributes:
        service: name of the Service that serves `port` at `path`, and value of its label `name`.
        alerts: arguments of `components.monitoring.values.alert`.
        panels: title, expression, unit and legend of panels of the dashboard.
    """

    service: str
    path: str
    port: str = "metrics"
    alerts: Sequence[tuple[str, str, str, str, str, str]] = ()
    panels: Sequence[tuple[str, str, str, str]] = ()


@dataclass(frozen=True)
class Exporter:
    """A DCGM exporter that comes with the platform: what finds its Service, and its port."""

    labels: Mapping[str, str]
    port: str


@dataclass(frozen=True, kw_only=True)
class Monitored:
    """What a platform is to monitoring.

    Attributes:
        resource: the resource's name in kube-state-metrics and the units of one GPU; None where
            GPUs aren't extended resources.
        metrics: what it measures itself.
        exporter: its own DCGM exporter; None: monitoring brings one.
    """

    resource: tuple[str, int] | None = ("nvidia_com_gpu", 1)
    metrics: Metrics | None = None
    exporter: Exporter | None = None


@dataclass(frozen=True)
class Platform(ABC):
    """One way to serve GPUs, as one stack has it.

    Class attributes and static methods hold for every stack; the rest is answered from `settings`
    and `site`.

    Attributes:
        settings: its own section of the stack file; None: it has none.
        site: what it depends on beside.
        chart: name of its chart, and of the release.
        repository: address of the repository that publishes the chart, or its folder here (``./``).
        servers: the pods that give GPUs out.
        layouts: how it divides GPUs; None: it doesn't.
        delivery: how containers get their devices.
        own_namespace: whether the namespace is made with the platform and goes with it.
        traits: what else is true of it.
        monitored: what it brings to monitoring.
        secrets: names of the stack's secrets that its parts may be filled from.
    """

    settings: Any
    site: Site

    chart: ClassVar[str]
    repository: ClassVar[str]
    servers: ClassVar[Servers]
    layouts: ClassVar[PlatformMigLayouts | None] = None
    delivery: ClassVar[Delivery] = Delivery.RUNTIME
    own_namespace: ClassVar[bool] = True
    traits: ClassVar[frozenset[Trait]] = frozenset()
    monitored: ClassVar[Monitored] = Monitored()
    secrets: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def version(self) -> str:
        """Version of the chart."""

    @property
    @abstractmethod
    def namespace(self) -> str:
        """Where the release is."""

    @abstractmethod
    def values(self) -> Json:
        """Return the release's Helm values."""

    @abstractmethod
    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return what each node of a pool offers."""

    @abstractmethod
    def images(self) -> Iterator[str]:
        """Yield images that the release needs, where their makers publish them."""

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        """Return the objects beside the release."""
        return ()

    def programs(self) -> tuple[Program, ...]:
        """Return the programs that run before the release comes and after it goes."""
        return ()

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the labels that the nodes of a pool with GPUs need."""
        return {}

    @property
    def found_by(self) -> tuple[tuple[str, str], ...]:
        """Labels (key, value) of nodes with GPUs: each node has one of them at least."""
        return ((f"{GPU}.present", "true"),)

    @staticmethod
    def limit(cards: float) -> dict[str, str]:
        """Return the most that a container may ask for, where it may have so many cards."""
        return {GPU: str(int(cards))}

    def plugin(self, pool: Pool) -> RunningPlugin | None:
        """Return NVIDIA's device plugin on a pool's nodes; None: there is none, or it can vary."""
        return None

    @property
    def engines(self) -> Engines:
        """What it wants of the nodes' container engines."""
        return Engines(need_cdi=self.delivery is Delivery.CDI)

    @property
    def runtime_class(self) -> str | None:
        """RuntimeClass of pods that use GPUs; None where they need none."""
        default = self.site.runtime.default_runtime is DefaultRuntime.NVIDIA
        return None if default or self.delivery is not Delivery.RUNTIME else RUNTIME_CLASS

    @staticmethod
    def claim(name: str, namespace: str, count: int) -> Json | None:
        """Return a ResourceClaimTemplate for GPUs of one node; None: pods ask for resources."""
        return None

    @staticmethod
    def defaults(document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return sections of a document with defaults that depend on others; still as written."""
        return {}

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield what contradicts the platform in a document."""
        yield from ()

    def warnings(self) -> Iterator[Fault]:
        """Yield what is allowed, and will probably not do what was meant."""
        yield from ()

    def endpoints(self) -> dict[str, str]:
        """Return what must answer the platform's nodes: ``host:port`` by what it is."""
        return {}

    def validate_cluster(
        self, seen: Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield what contradicts the platform in a cluster."""
        yield from ()
