"""Model of a running cluster: its nodes, its GPU software, and the owners of that software.

The model is plain, frozen data without a connection; `gpu_cluster.commands.adoption.read` fills it.
Texts are as the API server returned them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpu_cluster.settings.nodes.taint import Taint


class ManagerKind(StrEnum):
    """Kind of software that owns an object and may overwrite changes of the object."""

    HELM = "Helm"
    ARGO_CD = "Argo CD"
    FLUX = "Flux"
    FLEET = "Fleet"
    HELM_CONTROLLER = "the Helm controller of k3s"
    LIFECYCLE_MANAGER = "Operator Lifecycle Manager"
    ADDON_MANAGER = "the addon manager"
    OPERATOR = "an operator"
    THIS_PROGRAM = "a stack of this program"
    NOBODY = "a plain manifest"


@dataclass(frozen=True, kw_only=True)
class ManagedBy:
    """Owner of an object.

    Attributes:
        kind: Kind of the owner.
        object_kind: Kind of the object that represents the owner, such as `Application`; empty if
            there is none.
        name: Name of that object, or of the Helm release.
        namespace: Namespace of that object, or of the Helm release.
        labels: Labels with which the owner marked the object.
        annotations: Annotations with which the owner marked the object.
    """

    kind: ManagerKind
    object_kind: str = ""
    name: str = ""
    namespace: str = ""
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the owner as text, such as `Argo CD (Application argocd/gpu)`."""
        if not self.name:
            return str(self.kind)
        prefix = f"{self.namespace}/" if self.namespace else ""
        owner_kind = self.object_kind or "release"
        return f"{self.kind} ({owner_kind} {prefix}{self.name})"


NOBODY = ManagedBy(kind=ManagerKind.NOBODY)


@dataclass(frozen=True, kw_only=True)
class ObservedNode:
    """A node of the cluster.

    Attributes:
        address: Internal IP address; empty if the node reports none.
        labels: Labels that a person or an unrecognized program set.
        reported: Labels that NVIDIA's software, Node Feature Discovery or Kubernetes set.
        taints: Taints, without those that Kubernetes sets and clears.
        advertised: Capacity of each extended resource of a GPU vendor, by its name.
        registered: Number of GPUs that HAMi's device plugin registered; 0 without HAMi.
        ready: True if the node's condition `Ready` is true.
        control_plane: True if the node runs the control plane.
        engine: Container engine and its version, such as `containerd://2.2.9`.
        system: Name of the operating system.
        provider: Cloud provider of the node, such as `aws`; empty for a machine outside of clouds.
        is_ours: True if a stack of this program already manages the node's labels and taints.
    """

    name: str
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    reported: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    advertised: Mapping[str, int] = field(default_factory=dict)
    registered: int = 0
    ready: bool = True
    control_plane: bool = False
    engine: str = ""
    system: str = ""
    provider: str = ""
    is_ours: bool = False


@dataclass(frozen=True, kw_only=True)
class ObservedWorkload:
    """A DaemonSet or a Deployment that advertises GPUs or labels nodes with their features.

    Attributes:
        what: Name of the software, such as `NVIDIA's device plugin`.
        kind: `DaemonSet` or `Deployment`.
        namespace: Namespace of the object.
        managed_by: Owner of the object.
        release: Namespace and name of the Helm release in the object's annotations; None without
            them.
        manifest: The object without defaults, status and metadata that the API server adds.
    """

    what: str
    kind: str
    name: str
    namespace: str
    managed_by: ManagedBy = NOBODY
    release: tuple[str, str] | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the object as `Kind namespace/name`."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A field of a release's object that was changed without Helm after the last upgrade.

    Attributes:
        item: The object, as `Kind namespace/name`.
        path: Path of the field, such as `spec.template.spec.containers[0].image`.
    """

    item: str
    path: str


@dataclass(frozen=True, kw_only=True)
class ObservedRelease:
    """A Helm release of GPU software.

    Attributes:
        name: Name of the release.
        namespace: Namespace of the release.
        chart: Name of the chart.
        status: Helm's status, such as `deployed`.
        values: Values that the user set, without the chart's defaults.
        defaults: Default values of the chart.
        managed_by: Owner of the release: Helm itself, or software that runs Helm.
        edits: Fields of the release's objects that were changed without Helm.
        is_ours: True if a stack of this program already manages the release.
    """

    name: str
    namespace: str
    chart: str
    version: str
    status: str
    values: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    managed_by: ManagedBy = NOBODY
    edits: tuple[Edit, ...] = ()
    is_ours: bool = False

    def __str__(self) -> str:
        """Return the release as `release namespace/name`."""
        return f"release {self.namespace}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class ObservedCluster:
    """The nodes and the GPU software of a running cluster.

    Attributes:
        version: Version of the API server.
        nodes: All nodes, sorted by name.
        workloads: GPU software that runs as a DaemonSet or a Deployment.
        releases: Helm releases to which these workloads belong.
        runtime_classes: Handler of each RuntimeClass, by the name of the RuntimeClass.
        policies: Names of the GPU Operator's ClusterPolicies.
    """

    version: str
    nodes: tuple[ObservedNode, ...] = ()
    workloads: tuple[ObservedWorkload, ...] = ()
    releases: tuple[ObservedRelease, ...] = ()
    runtime_classes: Mapping[str, str] = field(default_factory=dict)
    policies: tuple[str, ...] = ()
