"""Base class of the platforms; a platform is the software that advertises GPUs to Kubernetes.

A platform object only computes plain values and opens no connection.
`gpu_cluster.release.component` creates the Pulumi resources from these values. Each platform is a
folder next to this file whose module `platform.py` assigns its class to `PLATFORM` (see
`docs/reference/platforms.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from gpu_cluster.charts.extra_values import plain
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.platforms.requests import Expected, HelmRelease
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.adopted import AdoptedRelease, AdoptedSettings
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.runtime import DefaultRuntime, RuntimeSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault
from gpu_rules.kube.gpu_resources import GPU

Json = dict[str, Any]

RUNTIME_CLASS = "nvidia"


class Delivery(StrEnum):
    """Way in which a container gets the devices that were allocated to its pod.

    `runtime`: by the NVIDIA runtime, either through a RuntimeClass or as the default runtime.
    `cdi`: by the container engine through CDI. `plugin`: by the platform's plugin, which mounts
    devices and libraries into the container and needs plain runc.
    """

    RUNTIME = "runtime"
    CDI = "cdi"
    PLUGIN = "plugin"


@dataclass(frozen=True, kw_only=True)
class Share:
    """A fraction of a GPU, which a container requests through several extended resources.

    Attributes:
        amounts: Amount of each resource.
        cure: What the user can do if a program fails on a share but not on a whole device.
        is_only: True if each container of a validation requests a share. Otherwise one container
            does, and the others request whole devices.
        annotations: Annotations of validation pods, so that each share is of another device.
    """

    amounts: Mapping[str, int]
    cure: str
    is_only: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Offer:
    """One extended resource that a node advertises.

    Attributes:
        resource: Name of the extended resource.
        count: Amount of the resource that a node advertises.
        devices: Number of GPUs or MIG devices behind this amount; lower than `count` if devices
            are shared.
        unit: Amount of the resource that equals one device.
        share: Share of a device that one container of a validation requests. None: containers
            get whole devices only.
    """

    resource: str
    count: int
    devices: int
    unit: int = 1
    share: Share | None = None


@dataclass(frozen=True, kw_only=True)
class ExtraObject:
    """A Kubernetes object that a platform needs and its Helm release does not create.

    Attributes:
        key: Suffix of the Pulumi resource's name; stable, and unique among all platforms.
        manifest: Manifest of the object.
        after: True if the object is created after the release.
        secret: Name of the stack's secret from which `content` computes the object's `stringData`.
            If the stack lacks the secret, the object is not created. Empty if no secret is needed.
        content: Function that returns `stringData` for the secret's value.
        without: Instruction to the user if the stack lacks the secret; empty: no instruction.
        source: Key of another extra object, from whose `spec` the function `data` computes this
            object's `data`. Empty if there is no such object.
        data: Function that returns `data` for the spec of the object `source`.
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
    """A program that runs before the release's installation and again after its removal.

    Attributes:
        key: Suffix of the Pulumi resource's name; stable, and unique among all platforms.
        name: Name of the program.
        create: Action of the program before the release is installed.
        delete: Action of the program after the release is removed.
        request: Input of the program (a class of `gpu_cluster.platforms.requests`).
        objects: Objects that must exist because the program manages them, or because the platform
            doesn't work without them.
    """

    key: str
    name: str
    create: str
    delete: str
    request: object
    objects: tuple[Expected, ...] = ()


@dataclass(frozen=True)
class NodeOverride:
    """A label or annotation of a node by which anybody who may write it overrules a setting there.

    Attributes:
        key: Key of the label.
        setting: Setting of the stack file that it overrules.
        effect: What the label does on its node.
        values: Values that overrule the setting. Empty: each value that isn't in `harmless`.
        harmless: Values that don't overrule it.
        is_annotation: Whether the key is that of an annotation.
    """

    key: str
    setting: str
    effect: str
    values: frozenset[str] = frozenset({"false"})
    harmless: frozenset[str] = frozenset()
    is_annotation: bool = False

    def overrules(self, value: str) -> bool:
        """Return whether a value of the label overrules the setting; empty: it isn't there."""
        if self.values:
            return value in self.values
        return bool(value) and value not in self.harmless


@dataclass(frozen=True)
class OperandOverride:
    """A variable or argument by which an edit of an operand's DaemonSet overrules a setting.

    Attributes:
        app: Value of the DaemonSet's label `app`.
        name: Name of the variable or of the argument.
        is_argument: Whether it is an argument.
        setting: Setting of the stack file that it overrules.
    """

    app: str
    name: str
    is_argument: bool
    setting: str


@dataclass(frozen=True)
class RunningPlugin:
    """Configuration with which NVIDIA's device plugin runs on a pool's nodes.

    Attributes:
        mig_strategy: `none`, `single` or `mixed`.
        replicas: Number of times that the plugin advertises each GPU.
        mps: True if pods share a GPU through MPS, False for time slicing.
        renamed: True if a shared GPU has another resource name.
    """

    mig_strategy: str
    replicas: int
    mps: bool
    renamed: bool


@dataclass(frozen=True)
class Servers:
    """The pods that allocate GPUs to containers; a node must not run those of two platforms.

    Attributes:
        pods: Label selector of the pods.
        daemon_set: Name of their DaemonSet in the Helm release.
        beside: True if extra objects of the platform are also DaemonSets of such pods.
    """

    pods: str
    daemon_set: str
    beside: bool = False


@dataclass(frozen=True)
class PlatformMigLayouts:
    """MIG partitioning by a platform, which reads the layout's name from a node label.

    Attributes:
        pods: Label selector of the pods that partition the GPUs.
        of: Function that returns the name of a pool's MIG layout, or an empty string if the pool
            declares none.
    """

    pods: str
    of: Callable[[Pool], str]


class Trait(StrEnum):
    """A property of some platforms that affects the validation of settings or the hosts."""

    BRINGS_DRIVER = "can bring the driver (`driver.source: operator`)"
    SHARES_CARDS = "a pod can have a part of a card"
    TAKES_PLUGIN_MEMORY = "`driverInstaller.pluginMemory` is its memory"
    WANTS_CGROUP_V1 = "works with cgroup v1 alone"
    HAS_OPERATOR = "an operator creates its pods"


@dataclass(frozen=True)
class Engines:
    """Requirements of a platform for the container engines on nodes, and its changes to them.

    Attributes:
        need_cdi: True if pods get their GPUs through the engine's CDI support.
        configured: True if the platform configures the NVIDIA runtime in the engines.
        runtime_classes: Names of the RuntimeClasses that the platform creates.
    """

    need_cdi: bool
    configured: bool = False
    runtime_classes: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Release and objects of a platform in a cluster, which this program installs or has adopted.

    Attributes:
        release: The Helm release; None if the platform consists of plain objects that the stack
            adopted.
        namespace: Namespace of the platform's pods.
        version: Version of the chart; empty without a release.
        servers: The pods that allocate GPUs to containers.
        own_namespace: True if the namespace is created and deleted with the platform.
        objects: Objects in addition to the release.
        programs: Programs that run before the release is installed and after its removal.
        daemon_sets: DaemonSets that were adopted, as `namespace/name`; `*` at the end stands for
            any text.
        is_adopted: True if the platform ran before the stack existed. The stack takes it over
            in place, and leaves it in the cluster when the stack is destroyed.
    """

    release: HelmRelease | None
    namespace: str
    version: str
    values: Json
    servers: Servers
    own_namespace: bool = False
    objects: tuple[ExtraObject, ...] = ()
    programs: tuple[Program, ...] = ()
    daemon_sets: frozenset[str] = frozenset()
    is_adopted: bool = False

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the platform's pods."""
        adopted = () if self.release else (item.manifest["metadata"] for item in self.objects)
        return frozenset({self.namespace, *(metadata["namespace"] for metadata in adopted)})


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Metrics that a platform provides in addition to those of the DCGM exporter.

    Attributes:
        service: Name of the Service with the metrics.
        labels: Labels of the Service.
        path: HTTP path of the metrics.
        port: Name of the Service's port.
        alerts: For each alert, the arguments of the function `gpu_cluster.monitoring.values.alert`.
        panels: Title, PromQL expression, unit and legend of each panel of the dashboard.
    """

    service: str
    labels: Mapping[str, str]
    path: str
    port: str = "metrics"
    alerts: Sequence[tuple[str, str, str, str, str, str]] = ()
    panels: Sequence[tuple[str, str, str, str]] = ()


@dataclass(frozen=True)
class Exporter:
    """A DCGM exporter that the platform installs: labels and port name of its Service."""

    labels: Mapping[str, str]
    port: str


@dataclass(frozen=True, kw_only=True)
class Monitored:
    """Data of a platform for the monitoring.

    Attributes:
        resource: Name of the GPU resource in kube-state-metrics and its amount per GPU. None if
            the platform advertises GPUs without an extended resource.
        metrics: Metrics of the platform itself, or None.
        exporter: DCGM exporter of the platform. None if the monitoring must install one.
    """

    resource: tuple[str, int] | None = ("nvidia_com_gpu", 1)
    metrics: Metrics | None = None
    exporter: Exporter | None = None


@dataclass(frozen=True)
class Platform(ABC):
    """Software that advertises GPUs to Kubernetes, as configured in one stack.

    Class attributes and static methods are the same for every stack. Other methods depend on
    `settings` and `site`.

    Attributes:
        settings: The platform's section of the stack file, or None if it has no section.
        site: Other settings of the stack that the platform depends on.
        chart: Name of the Helm chart and of the release.
        repository: URL of the repository that publishes the chart, or a path that begins with
            `./` for a chart of this project.
        own_chart: Folder of a chart of this project; `repository` is a link to it.
        servers: The pods that allocate GPUs to containers.
        layouts: How the platform partitions GPUs with MIG; None if it doesn't.
        delivery: How containers get their devices.
        own_namespace: True if the namespace is created and deleted with the platform.
        traits: Other properties of the platform.
        without_limits: Reason why `limit` is empty, if it is.
        secrets: Names of the stack's secrets that extra objects may be filled from.
    """

    settings: Any
    site: Site

    chart: ClassVar[str]
    repository: ClassVar[str]
    own_chart: ClassVar[Path | None] = None
    servers: ClassVar[Servers]
    layouts: ClassVar[PlatformMigLayouts | None] = None
    delivery: ClassVar[Delivery] = Delivery.RUNTIME
    own_namespace: ClassVar[bool] = True
    traits: ClassVar[frozenset[Trait]] = frozenset()
    without_limits: ClassVar[str] = (
        "no limits: a LimitRange counts extended resources, and claims aren't any"
    )
    secrets: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def version(self) -> str:
        """Return the version of the chart."""

    @property
    @abstractmethod
    def namespace(self) -> str:
        """Return the namespace of the Helm release."""

    @abstractmethod
    def values(self) -> Json:
        """Return the Helm values of the release."""

    @abstractmethod
    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return the extended resources that each node of a pool advertises."""

    @abstractmethod
    def images(self) -> Iterator[str]:
        """Yield the images that the release needs, named by their vendors' registries."""

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        """Return the Kubernetes objects that the platform needs in addition to its release."""
        return ()

    def programs(self) -> tuple[Program, ...]:
        """Return the programs that run before the release is installed and after its removal."""
        return ()

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the labels that the nodes of a pool with GPUs need."""
        return {}

    @property
    def runs_imex(self) -> bool:
        """Return whether the platform starts IMEX daemons on nodes."""
        return False

    @property
    def installation(self) -> Installation:
        """Return the release and the objects of the platform, which are installed or adopted."""
        if self.site.adopted is not None:
            return adopted_installation(self.site.adopted, self.servers, self.chart)
        return Installation(
            release=HelmRelease(name=self.chart, namespace=self.namespace),
            namespace=self.namespace,
            version=self.version,
            values=self.values(),
            servers=self.servers,
            own_namespace=self.own_namespace,
            objects=self.extra_objects(),
            programs=self.programs(),
        )

    @property
    def node_overrides(self) -> tuple[NodeOverride, ...]:
        """Return labels and annotations of nodes by which others overrule the settings."""
        return ()

    @property
    def operand_overrides(self) -> tuple[OperandOverride, ...]:
        """Return variables and arguments by which edited DaemonSets overrule the settings.

        Only for DaemonSets that an operator makes: objects of the release are compared as a whole.
        """
        return ()

    @property
    def found_by(self) -> tuple[tuple[str, str], ...]:
        """Return labels (key, value), of which each node with GPUs has at least one."""
        return ((f"{GPU}.present", "true"),)

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        """Return labels (key, value); somebody else's Node Feature Discovery must set one of them.

        Empty if the platform's nodes need no label from another installation.
        """
        return ()

    @staticmethod
    def placing_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the part of the chart's values that places the pods that allocate GPUs.

        Its keys `nodeSelector`, `affinity` and `tolerations` are those of a pod's spec.
        """
        return {}

    @property
    def placement(self) -> Json:
        """Return where the user's chart values place the pods that allocate GPUs.

        The result has fields of a pod's spec: nodeSelector, affinity, tolerations. It lacks
        tolerations if the user wrote none; the chart's own are then in force.
        """
        values = self.installation.values
        written = values if self.site.adopted else getattr(self.settings, "extra_values", {})
        chosen, placing = self.placing_values(written), self.placing_values(values)
        result = {key: chosen[key] for key in ("nodeSelector", "affinity") if chosen.get(key)}
        if "tolerations" in placing:
            result["tolerations"] = placing["tolerations"]
        placement: Json = plain(result)
        return placement

    @property
    def monitored(self) -> Monitored:
        """Return the data of the platform for the monitoring."""
        return Monitored()

    @staticmethod
    def limit(cards: float) -> dict[str, str]:
        """Return the maximum that a container may request of each resource, for `cards` GPUs."""
        return {GPU: str(int(cards))}

    def plugin(self, pool: Pool) -> RunningPlugin | None:
        """Return how NVIDIA's device plugin runs on a pool's nodes.

        Return None if the platform runs no such plugin or if its configuration can vary.
        """
        return None

    def parallel_drivers(self, nodes: int) -> int:
        """Return how many of `nodes` nodes get another driver's container at the same time."""
        return 1

    @property
    def engines(self) -> Engines:
        """Return the platform's requirements for the container engines on nodes."""
        return Engines(need_cdi=self.delivery is Delivery.CDI)

    @property
    def runtime_class(self) -> str | None:
        """Return the RuntimeClass of pods that use GPUs; None if these pods need none."""
        default = self.site.shared.runtime.default_runtime is DefaultRuntime.NVIDIA
        return None if default or self.delivery is not Delivery.RUNTIME else RUNTIME_CLASS

    @staticmethod
    def claim(name: str, namespace: str, count: int) -> Json | None:
        """Return a ResourceClaimTemplate for GPUs of one node; None if pods request a resource."""
        return None

    @staticmethod
    def defaults(document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return sections with default values that depend on other sections of the stack file.

        Args:
            document: Content of the stack file before its validation.
        """
        return {}

    @classmethod
    def shared(
        cls, driver: DriverSettings, runtime: RuntimeSettings
    ) -> dict[tuple[str, str], object]:
        """Return the settings that the release gives to all nodes with GPUs.

        Pools and hosts with GPUs must not override them differently. A setting is missing if it
        has no effect on the release.

        Args:
            driver: Driver of a node.
            runtime: Container runtime of a node.

        Returns:
            The node's values, by section and name of the setting.
        """
        if cls.delivery is not Delivery.RUNTIME:
            return {}
        return {("runtime", "default_runtime"): runtime.default_runtime}

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield a fault for each setting of the stack file that contradicts the platform."""
        yield from ()

    @staticmethod
    def warnings(sections: ValidSections) -> Iterator[Fault]:
        """Yield warnings about valid settings that probably don't have the intended effect."""
        yield from ()

    def endpoints(self) -> dict[str, str]:
        """Return the endpoints (`host:port`) that nodes must reach, by description."""
        return {}

    @property
    def service_address(self) -> str:
        """Return the IP address set for the platform's Service; empty if none is set."""
        return ""

    def validate_cluster(
        self, surroundings: Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield a fault for each property of the cluster that contradicts the platform."""
        yield from ()


def _named_after(release: AdoptedRelease) -> frozenset[str]:
    """Return the names that the DaemonSets of a release may have, as patterns.

    A chart names its objects after the release, unless the values have another name
    (k8s-device-plugin v0.20.0, _helpers.tpl).
    """
    override = release.values.get("fullnameOverride")
    names = {release.name, override} if isinstance(override, str) and override else {release.name}
    return frozenset(f"{release.namespace}/{name}{end}" for name in names for end in ("", "-*"))


def adopted_installation(adopted: AdoptedSettings, servers: Servers, chart: str) -> Installation:
    """Return the installation of a platform that ran before the stack existed.

    The charts of the device plugin and of HAMi begin the names of objects with the release's name
    if that contains the chart's name, and otherwise with `<release>-<chart>` (k8s-device-plugin
    v0.20.0, HAMi v2.10.0, _helpers.tpl).

    Args:
        adopted: The section `adopted` of the stack file.
        servers: Label selector and DaemonSet of the pods that allocate GPUs, as in the chart.
        chart: Name of the platform's chart.
    """
    if release := adopted.release:
        full = release.name if chart in release.name else f"{release.name}-{chart}"
        adopted_name = servers.daemon_set
        if adopted_name.startswith(chart):
            adopted_name = full + adopted_name.removeprefix(chart)
        return Installation(
            release=HelmRelease(name=release.name, namespace=release.namespace),
            namespace=release.namespace,
            version=release.version,
            values=plain(release.values),
            servers=Servers(servers.pods, adopted_name),
            daemon_sets=_named_after(release),
            is_adopted=True,
        )
    manifests = [plain(manifest) for manifest in adopted.objects]
    first = manifests[0]
    labels = first["spec"]["selector"]["matchLabels"]
    return Installation(
        release=None,
        namespace=first["metadata"]["namespace"],
        version="",
        values={},
        servers=Servers(
            ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
            first["metadata"]["name"],
        ),
        objects=tuple(
            ExtraObject(
                key=f"adopted-{manifest['metadata']['namespace']}-{manifest['metadata']['name']}",
                manifest=manifest,
            )
            for manifest in manifests
        ),
        daemon_sets=frozenset(
            f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
            for manifest in manifests
        ),
        is_adopted=True,
    )
