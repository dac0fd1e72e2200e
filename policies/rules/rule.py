"""What a rule is, what it is asked about, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..faults import worded
from . import custom
from .context import Context, Severity
from .pod_spec import Pod, find_pod
from .unknown import UNKNOWN, at, mapping, text


class Need(StrEnum):
    """What a rule must know besides the manifest, or it judges nothing."""

    POOLS = "the stack's pools"
    PLUGIN = "the device plugin's configuration"
    RUNTIME = "the container runtime's default"
    CAPS = "the caps of the pack's settings"

    def known(self, context: Context) -> bool:
        """Whether the context has it."""
        match self:
            case Need.POOLS:
                return bool(context.pools)
            case Need.PLUGIN:
                return context.plugin is not None
            case Need.RUNTIME:
                return context.runtime_class is not None
            case Need.CAPS:
                return (context.max_gpus_per_container, context.max_gpus_per_pod) != (None, None)


_IN_NAMESPACES = frozenset(
    {"ConfigMap", "Secret", "LimitRange", "ResourceQuota", "HorizontalPodAutoscaler"}
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A manifest with what the rules read from it, found once for all of them.

    `namespace` is empty where none is given, `namespace_known` false where it is not known yet.
    """

    manifest: Mapping[str, object]
    kind: str
    name: str
    namespace: str
    pod: Pod | None
    namespace_known: bool = True

    @classmethod
    def of(cls, manifest: Mapping[str, object], default_namespace: str = "") -> Subject:
        """Read a manifest; nothing in it makes this fail.

        Args:
            manifest: plain data as in YAML.
            default_namespace: where what belongs into a namespace goes when it names none.
        """
        return cls._with(manifest, find_pod(manifest), default_namespace)

    @classmethod
    def all_of(cls, manifest: Mapping[str, object], default_namespace: str = "") -> list[Subject]:
        """The same, once for each pod that an object of a custom kind brings."""
        pods = list(custom.pods(manifest)) if custom.is_custom(manifest) else []
        if not pods:
            return [cls.of(manifest, default_namespace)]
        return [cls._with(manifest, pod, default_namespace) for pod in pods]

    @classmethod
    def _with(
        cls, manifest: Mapping[str, object], pod: Pod | None, default_namespace: str
    ) -> Subject:
        namespace, kind = at(manifest, "metadata", "namespace"), text(manifest.get("kind"))
        spaced = pod is not None or kind in _IN_NAMESPACES
        return cls(
            manifest=manifest,
            kind=kind,
            name=text(at(manifest, "metadata", "name")) or text(manifest.get("name")),
            namespace=text(namespace) or (default_namespace if spaced else ""),
            pod=pod,
            namespace_known=namespace is not UNKNOWN,
        )

    @property
    def label(self) -> str:
        """Kind, namespace and name, as messages have them."""
        name = "/".join(filter(None, (self.namespace, self.name)))
        return f"{self.kind} {name}".strip()

    @property
    def group_version(self) -> str:
        """The manifest's `apiVersion`."""
        return text(self.manifest.get("apiVersion"))

    @property
    def annotations(self) -> Mapping[str, object]:
        """The annotations of the object, over those of its pod template."""
        own = mapping(at(self.manifest, "metadata", "annotations"))
        return {**mapping(at(self.pod.metadata, "annotations")), **own} if self.pod else own

    def is_workload(self, context: Context) -> bool:
        """Whether it is outside the namespaces of the GPU stack, as far as can be told."""
        return self.namespace_known and self.namespace not in context.infrastructure_namespaces


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a manifest breaks a rule. `container` is empty for what is not in one."""

    path: str
    found: str
    wanted: str
    cure: str
    container: str = ""


Check = Callable[[Subject, Context], Iterator[Finding]]
StackCheck = Callable[[Sequence[Subject], Context], Iterator[tuple[Subject, Finding]]]


def _nothing(_: Subject, __: Context) -> Iterator[Finding]:
    yield from ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule over one manifest, or over all manifests of a stack.

    `id`: `GPU001` and so on, never used again once given. `check`: pure; yields what it finds,
    raises nothing. `across`: the same over the whole stack, `None` where a manifest is enough.
    `whole`: it judges what is missing, so partial manifests (patches) are not its concern.
    `needs`: what must be known. `why` and `source`: for the reference.
    """

    id: str
    title: str
    severity: Severity
    why: str
    source: str
    check: Check = _nothing
    across: StackCheck | None = None
    needs: frozenset[Need] = frozenset()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding with its rule, the severity that holds in this context, and the object.

    `exemption`: the end date and reason of the exemption that lowers it to advice, or empty.
    """

    rule: Rule
    severity: Severity
    subject: str
    container: str
    path: str
    found: str
    wanted: str
    cure: str
    exemption: str = ""

    @property
    def message(self) -> str:
        """One line: rule, object, container, path, found, wanted, cure; an exemption last."""
        where = f"{self.subject}, container {self.container}" if self.container else self.subject
        line = (
            f"{self.rule.id} {self.rule.title}: {where}: {self.path}: "
            f"{worded(self.found, self.wanted, self.cure)}"
        )
        return f"{line} [exempt {self.exemption}]" if self.exemption else line
