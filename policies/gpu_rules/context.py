"""Facts about the cluster that the rules need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from .facts.floors import Software, floor
from .facts.host_folders import FOLDERS
from .faults import Severity as Severity
from .kube.gpu_resources import GPU, GPU_SHARED
from .kube.taints import NodeTaint


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool of identical GPU nodes.

    Attributes:
        name: Name of the pool.
        gpus_per_node: Number of whole GPUs on each node.
        taints: Taints that the stack sets on the nodes.
        labels: Labels that the stack sets; the nodes may have more.
        nodes: Number of nodes, or None if not known.
        node_names: Names of the nodes; empty if not known.
        gpu_memory_mib: Memory of one GPU in MiB, or None if not known.
    """

    name: str
    gpus_per_node: int
    taints: tuple[NodeTaint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    nodes: int | None = None
    node_names: frozenset[str] = frozenset()
    gpu_memory_mib: int | None = None


class Mig(StrEnum):
    """MIG strategy of the device plugin: how it advertises MIG devices."""

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class Sharing(StrEnum):
    """How the device plugin shares one GPU between several pods."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class PluginFacts:
    """Configuration of NVIDIA's device plugin.

    Attributes:
        mig: MIG strategy.
        sharing: How GPUs are shared.
        renamed: Whether shared GPUs are advertised as `nvidia.com/gpu.shared` (`renameByDefault`).
        replicas: Number of shares that each GPU is advertised as; 1 without sharing.
    """

    mig: Mig = Mig.NONE
    sharing: Sharing = Sharing.NONE
    renamed: bool = False
    replicas: int = 1


KUBE_SYSTEM = "kube-system"
"""Namespace that each API server creates for Kubernetes itself, before anybody can log in."""


# Users that create the pods of DaemonSets: the kube-controller-manager of kubernetes v1.34.4 with a
# service account for each controller, and without.
DAEMON_SET_CONTROLLERS = frozenset(
    {"system:serviceaccount:kube-system:daemon-set-controller", "system:kube-controller-manager"}
)


ClaimKey = tuple[str, str, str]
"""Namespace, kind and name of a ResourceClaim or ResourceClaimTemplate."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """The number of GPUs that a claim, or a claim made from a template, gets.

    Attributes:
        gpus: Minimum number of GPUs by DeviceClass. Of alternatives, the first counts.
        most: Maximum number of devices that may be GPUs, of all classes together.
        sure: Whether the claim gets a GPU, whatever alternative is allocated.
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    most: int = 0
    sure: bool = False


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Devices of claims (DRA), as the manifests of a stack define them.

    Attributes:
        claims: The GPUs of each claim and claim template.
        shared: Claims and claim templates that take no device for themselves (adminAccess).
        classes: DeviceClasses whose selectors name GPUs.
        resources: Extended resources by which DeviceClasses for GPUs can be requested.
    """

    claims: Mapping[ClaimKey, ClaimFacts] = field(default_factory=dict)
    shared: frozenset[ClaimKey] = frozenset()
    classes: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ExemptionFacts:
    """An exemption in the settings, for objects that match all fields that are set.

    Attributes:
        rules: Ids of the rules that don't apply.
        until: Last day on which the exemption has effect.
        reason: Reason for the exemption.
        namespaces: Patterns of namespaces, in which `*` stands for any text.
        labels: Labels of the object or of its pods.
        images: Patterns of the images of all containers, also of ephemeral ones.
        host_paths: Patterns of all host paths that the pod mounts.
    """

    rules: frozenset[str]
    until: date
    reason: str
    namespaces: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    host_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """Facts about the cluster; a rule that needs an unknown fact finds nothing.

    Attributes:
        pools: GPU node pools; empty if not known.
        platform: What advertises the GPUs (`device-plugin`, `gpu-operator`, `gpu-manager`, `hami`,
            `dra`), or None if not known.
        resource_names: GPU resources that the nodes advertise in addition to the well-known ones.
        extended_resource_toleration: Whether the API server runs the admission plugin
            ExtendedResourceToleration; off by default (kubernetes v1.34.4
            pkg/kubeapiserver/options/plugins.go).
        infrastructure_namespaces: Namespaces that the rules trust in addition to `kube-system`:
            those that the stack creates or declares; None if nobody has declared any.
        daemon_sets: DaemonSets outside these namespaces that the rules trust, as `namespace/name`;
            `*` at the end stands for any text.
        severities: Severities by rule id, which override the rules' defaults.
        plugin: Configuration of the device plugin, or None if not known.
        runtime_class: RuntimeClass that GPU pods must name; empty if nvidia is the default runtime,
            None if not known.
        runtime_classes: Further RuntimeClasses that GPU pods may name.
        max_gpus_per_container: Maximum number of whole GPUs per container, or None for no limit.
        max_gpus_per_pod: Maximum number of whole GPUs per pod, or None for no limit.
        toolkit_floor: Oldest NVIDIA Container Toolkit that may be deployed; default: the first
            version with the fixes of all security bulletins (`gpu_rules.facts.floors`).
        namespace: Namespace of objects that name none.
        daemon_set_controllers: Users that create the pods of DaemonSets; only admission policies
            can see the user.
        exemptions: Exemptions in the settings.
        allowed_host_paths: Folders of nodes that pods with GPUs, or near them, may mount; `/*` at
            the end stands for the folders directly below.
        other_claims: Claims, claim templates and DeviceClasses that have no GPUs, by name.
        devices: What the manifests of the stack say about the devices of claims.
        ignored_paths: Patterns of files that the checker leaves out (`gpu_rules.check.ignored`).
        observed: Whether the objects were read from a cluster. What the system wrote into them is
            then not judged (`gpu_rules.rules.observed`), and their owners count.
        today: Date that exemptions are compared with; default: the current date.
    """

    pools: tuple[PoolFacts, ...] = ()
    platform: str | None = None
    resource_names: frozenset[str] = frozenset()
    extended_resource_toleration: bool = False
    infrastructure_namespaces: frozenset[str] | None = None
    daemon_sets: frozenset[str] = frozenset()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    plugin: PluginFacts | None = None
    runtime_class: str | None = None
    runtime_classes: frozenset[str] = frozenset()
    max_gpus_per_container: int | None = None
    max_gpus_per_pod: int | None = None
    toolkit_floor: str = field(default_factory=lambda: floor(Software.TOOLKIT).fixed)
    namespace: str = ""
    daemon_set_controllers: frozenset[str] = DAEMON_SET_CONTROLLERS
    exemptions: tuple[ExemptionFacts, ...] = ()
    allowed_host_paths: frozenset[str] = frozenset(FOLDERS)
    other_claims: frozenset[str] = frozenset()
    devices: DeviceFacts = DeviceFacts()
    ignored_paths: tuple[tuple[str, ...], ...] = ()
    observed: bool = False
    today: date | None = None

    @property
    def trusted_namespaces(self) -> frozenset[str]:
        """Return the namespaces in which the rules about workloads don't apply."""
        return frozenset({KUBE_SYSTEM}) | (self.infrastructure_namespaces or frozenset())

    @property
    def trust_is_declared(self) -> bool:
        """Return whether the settings declare who may deploy node agents.

        If not, DaemonSets get advice where other pods are refused.
        """
        return self.infrastructure_namespaces is not None

    @property
    def shared_resources(self) -> frozenset[str]:
        """Return the resources whose units may be shares of one and the same GPU.

        HAMi assigns each unit of nvidia.com/gpu another physical GPU (Project-HAMi/HAMi README,
        "Device Resources Isolation").
        """
        plugin = self.plugin
        is_shared = plugin and plugin.sharing is not Sharing.NONE and not plugin.renamed
        names = {GPU_SHARED, GPU} if is_shared and self.platform != "hami" else {GPU_SHARED}
        return frozenset(names)

    def trusts_daemon_set(self, namespace: str, name: str) -> bool:
        """Return whether the rules about workloads don't apply to a DaemonSet."""
        key = f"{namespace}/{name}"
        return any(
            key.startswith(form[:-1]) if form.endswith("*") else key == form
            for form in self.daemon_sets
        )
