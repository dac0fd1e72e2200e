"""Requests of the platforms' programs, and the results that they print for their next run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class HelmRelease:
    """Name and namespace of a Helm release."""

    name: str
    namespace: str

    def __str__(self) -> str:
        """Return the release as `release namespace/name`."""
        return f"release {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Expected:
    """A Kubernetes object that must exist in the cluster.

    Attributes:
        api_version: API group and version, as in a manifest.
        kind: Kind, as in a manifest.
        namespace: Namespace; empty if the object has none or the namespace of its release.
        body: Manifest as JSON for an object of a Helm release; None for other objects.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    body: str | None = None

    def __str__(self) -> str:
        """Return the object as `Kind namespace/name`, or as `Kind name` if it has no namespace."""
        prefix = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {prefix}{self.name}"


@dataclass(frozen=True, kw_only=True)
class PresenceRequest:
    """The objects of a platform that must exist: request of the program `presence`.

    Attributes:
        release: Helm release of the platform; None if the platform has none.
        version: Version of the release's chart.
        objects: Objects that are created in addition to the release.
        revision: Helm's revision number in the Pulumi state; 0 if the release is not installed yet.
    """

    context: str
    platform: str
    release: HelmRelease | None
    version: str
    objects: tuple[Expected, ...]
    revision: int = 0


@dataclass(frozen=True, kw_only=True)
class RecordedRelease(HelmRelease):
    """Revision and digest of a Helm release that Pulumi installed.

    Attributes:
        revision: Helm's revision number.
        digest: SHA-256 of the release's manifest.
    """

    revision: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class PresenceResult:
    """Output of the program `presence`.

    Attributes:
        restored: Objects that were missing or edited, and that the run created again or repaired.
        record: Record that the next run compares with the release; None if there is no record.
    """

    platform: str = ""
    restored: tuple[str, ...] = ()
    record: RecordedRelease | None = None


@dataclass(frozen=True, kw_only=True)
class DefinitionsRequest:
    """Names of a chart's CustomResourceDefinitions: request of the program `crds`."""

    context: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NotedDefinitions:
    """CustomResourceDefinitions that the program `crds` has recorded.

    Attributes:
        names: Names of all CustomResourceDefinitions that charts of the stack install.
        foreign: Names of those that existed before a chart of the stack installed them.
    """

    names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeKeysRequest:
    """Request of the program `operator-labels`, which removes a platform's labels from nodes.

    Attributes:
        labels: Prefixes of label keys.
        annotations: Prefixes of annotation keys.
    """

    context: str
    labels: tuple[str, ...]
    annotations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NotedKeys:
    """Label and annotation keys, mapped to the nodes that had them before the platform."""

    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    annotations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RuntimeClassRequest:
    """The RuntimeClass of GPU pods: request of the program `runtime-class`.

    Attributes:
        name: Name of the RuntimeClass and of its handler.
    """

    context: str
    name: str


@dataclass(frozen=True, kw_only=True)
class NotedRuntimeClass:
    """Record of whether the stack created the RuntimeClass and therefore deletes it later."""

    made: bool = False
