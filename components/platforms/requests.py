"""Requests of a platform's programs, and what these programs print for their next run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class HelmRelease:
    """Which release of Helm's is meant."""

    name: str
    namespace: str

    def __str__(self) -> str:
        return f"release {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Expected:
    """An object that must be in the cluster.

    Attributes:
        api_version: group and version, as in the manifest; `kind`, `name` likewise.
        namespace: its namespace; empty: it has none, or the release's.
        body: its manifest as JSON if a release has it; None: it isn't of the release.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    body: str | None = None

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


@dataclass(frozen=True, kw_only=True)
class PresenceRequest:
    """What must be in the cluster of a platform: request of the program ``presence``.

    Attributes:
        context: context of the kubeconfig.
        platform: name of the platform.
        release: its release.
        version: of the release's chart.
        objects: the objects that are made in addition to the release.
        revision: Helm's number of the release in the state; 0: the release isn't made yet.
    """

    context: str
    platform: str
    release: HelmRelease
    version: str
    objects: tuple[Expected, ...]
    revision: int = 0


@dataclass(frozen=True, kw_only=True)
class RecordedRelease(HelmRelease):
    """The record of a release that the engine made.

    Attributes:
        revision: Helm's number of it.
        digest: SHA-256 of its manifest.
    """

    revision: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class PresenceResult:
    """What the program ``presence`` prints.

    Attributes:
        platform: name of the platform.
        restored: objects that the run made again.
        record: what the next run compares the release's record with; None: there is no record.
    """

    platform: str = ""
    restored: tuple[str, ...] = ()
    record: RecordedRelease | None = None


@dataclass(frozen=True, kw_only=True)
class DefinitionsRequest:
    """The custom resource definitions that come with a chart: request of the program ``crds``."""

    context: str
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NotedDefinitions:
    """The definitions that the program ``crds`` has met.

    Attributes:
        names: all of them.
        foreign: those that were there before a chart brought them.
    """

    names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NodeKeysRequest:
    """Keys that a platform leaves on nodes: request of the program ``operator_labels``.

    Attributes:
        context: context of the kubeconfig.
        labels: prefixes of the labels' keys.
        annotations: prefixes of the annotations' keys.
    """

    context: str
    labels: tuple[str, ...]
    annotations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NotedKeys:
    """The nodes that have such a key before the platform comes, by key."""

    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    annotations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RuntimeClassRequest:
    """The RuntimeClass of pods with GPUs: request of the program ``runtime_class``.

    Attributes:
        context: context of the kubeconfig.
        name: name of the RuntimeClass and of its handler.
    """

    context: str
    name: str


@dataclass(frozen=True, kw_only=True)
class NotedRuntimeClass:
    """Whether the RuntimeClass goes with the stack."""

    made: bool = False
