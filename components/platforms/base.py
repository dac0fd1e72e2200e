"""What a platform is: the one object that everything asks about how GPUs are served.

Pure: it answers by plain values, and `components.platforms.component` declares them. A platform is
a folder here with `platform.py`, in which `PLATFORM` is an instance (`docs/platforms.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from components.hosts.facts import HostFacts
from components.hosts.settings.runtime import DefaultRuntime
from components.nodes.resources import GPU
from components.nodes.settings.pool import Pool
from components.platforms.device_plugin.configuration import DevicePluginConfig
from components.platforms.device_plugin.flags import MigStrategy
from components.platforms.findings import Surroundings
from components.settings.cluster import Cluster
from components.settings.parts import Parts
from config.problem import Fault

Json = dict[str, Any]

RUNTIME_CLASS = "nvidia"
LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}


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
class Part:
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
        document: its input beside `context`.
    """

    key: str
    name: str
    create: str
    delete: str
    document: Json


@dataclass(frozen=True)
class Plugin:
    """NVIDIA's device plugin as it runs on a pool's nodes."""

    file: DevicePluginConfig
    mig_strategy: MigStrategy


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


class Platform(ABC):
    """One way to serve GPUs.

    Attributes:
        chart: name of its chart, and of the release.
        repository: address of the repository that publishes the chart, or its folder here (``./``).
        servers: label selector of the pods that give GPUs out.
        daemon_set: name of the DaemonSet of those pods.
        dividers: label selector of the pods that divide GPUs; empty: nothing does.
        delivery: how containers get their devices.
        own_namespace: whether the namespace is made with the platform and goes with it.
        own_servers: whether some of its `parts` are DaemonSets that give GPUs out, too.
        brings_driver: whether it can bring the driver (`driver.source: operator`).
        shares_cards: whether a pod can have a part of a card.
        wants_cgroup_v1: whether it works with cgroup v1 alone.
        takes_plugin_memory: whether `driverInstaller.pluginMemory` is its memory.
        measured: the resource's name in kube-state-metrics and the units of one GPU; None where
            GPUs aren't extended resources.
        runtime_classes: RuntimeClasses that come with it.
        metrics, exporter: what it brings to monitoring.
    """

    chart: ClassVar[str]
    repository: ClassVar[str]
    servers: ClassVar[str]
    daemon_set: ClassVar[str]
    dividers: ClassVar[str] = ""
    delivery: ClassVar[Delivery] = Delivery.RUNTIME
    own_namespace: ClassVar[bool] = True
    own_servers: ClassVar[bool] = False
    brings_driver: ClassVar[bool] = False
    shares_cards: ClassVar[bool] = False
    takes_plugin_memory: ClassVar[bool] = False
    wants_cgroup_v1: ClassVar[bool] = False
    measured: ClassVar[tuple[str, int] | None] = ("nvidia_com_gpu", 1)
    runtime_classes: ClassVar[frozenset[str]] = frozenset()
    metrics: ClassVar[Metrics | None] = None
    exporter: ClassVar[Exporter | None] = None

    @abstractmethod
    def version(self, cluster: Cluster) -> str:
        """Version of the chart."""

    @abstractmethod
    def namespace(self, cluster: Cluster) -> str:
        """Where the release is."""

    @abstractmethod
    def values(self, cluster: Cluster) -> Json:
        """Helm values for a configuration."""

    @abstractmethod
    def offers(self, cluster: Cluster, pool: Pool) -> tuple[Offer, ...]:
        """What each node of a pool offers."""

    @abstractmethod
    def images(self, cluster: Cluster) -> Iterator[str]:
        """Images that the release needs, where their makers publish them."""

    def parts(self, cluster: Cluster) -> tuple[Part, ...]:
        """Objects beside the release."""
        return ()

    def programs(self, cluster: Cluster) -> tuple[Program, ...]:
        """Programs that run before the release comes and after it goes."""
        return ()

    def definitions(self, cluster: Cluster) -> tuple[str, ...]:
        """Custom resource definitions without which the platform does nothing."""
        return ()

    def labels(self, cluster: Cluster, pool: Pool) -> dict[str, str]:
        """Labels that the nodes of a pool with GPUs need."""
        return {}

    def layout(self, pool: Pool) -> str:
        """Name of the layout by which a pool's GPUs are divided; empty: none is declared."""
        return ""

    def found_by(self, cluster: Cluster) -> tuple[tuple[str, str], ...]:
        """Labels (key, value) of nodes with GPUs: each node has one of them at least."""
        return ((f"{GPU}.present", "true"),)

    def limit(self, cards: float) -> dict[str, str]:
        """The most that a container may ask for, where it may have so many cards."""
        return {GPU: str(int(cards))}

    def plugin(self, cluster: Cluster, pool: Pool) -> Plugin | None:
        """NVIDIA's device plugin on a pool's nodes; None where there is none, or it can vary."""
        return None

    def needs_cdi(self, cluster: Cluster) -> bool:
        """Whether pods get their GPUs from a container engine with CDI alone."""
        return self.delivery is Delivery.CDI

    def configures_runtime(self, cluster: Cluster) -> bool:
        """Whether the platform itself puts the NVIDIA runtime into the nodes' engine."""
        return False

    def runtime_class(self, cluster: Cluster) -> str | None:
        """RuntimeClass of pods that use GPUs; None where they need none."""
        default = cluster.runtime.default_runtime is DefaultRuntime.NVIDIA
        return None if default or self.delivery is not Delivery.RUNTIME else RUNTIME_CLASS

    def claim(self, name: str, namespace: str, count: int) -> Json | None:
        """A ResourceClaimTemplate for GPUs of one node; None where pods ask for resources."""
        return None

    def defaults(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Sections of a document with defaults that depend on others; still as written."""
        return {}

    def problems(self, parts: Parts) -> Iterator[Fault]:
        """What contradicts the platform in a document."""
        yield from ()

    def advice(self, cluster: Cluster) -> Iterator[Fault]:
        """What is allowed, and will probably not do what was meant."""
        yield from ()

    def endpoints(self, cluster: Cluster) -> dict[str, str]:
        """What must answer the platform's nodes: ``host:port`` by what it is."""
        return {}

    def judge(
        self, cluster: Cluster, seen: Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """What contradicts the platform in a cluster (`components.platforms.judge`)."""
        yield from ()
