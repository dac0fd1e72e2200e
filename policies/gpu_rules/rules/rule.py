"""The data model of the rules: rule, subject, finding and violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum

from ..context import Context, Severity
from ..faults import worded
from ..kube.gpu_resources import (
    HAMI_CORES,
    HAMI_MEMORY,
    HAMI_PERCENTAGE,
    VCUDA_CORE,
    VCUDA_MEMORY,
)
from . import custom
from .pod_spec import Pod, find_pod
from .unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text


class Need(StrEnum):
    """A fact about the cluster that a rule needs; without the fact the rule finds nothing."""

    POOLS = "the stack's pools"
    PLUGIN = "the device plugin's configuration"
    RUNTIME = "the container runtime's default"
    CAPS = "the caps of the pack's settings"
    GPU_MANAGER = "gpu-manager as platform, or its resources in resourceNames"
    HAMI = "HAMi as platform, or its resources in resourceNames"

    def known(self, context: Context) -> bool:
        """Return whether the fact is known for a cluster."""
        match self:
            case Need.POOLS:
                return bool(context.pools)
            case Need.PLUGIN:
                return context.plugin is not None
            case Need.RUNTIME:
                return context.runtime_class is not None
            case Need.CAPS:
                return (context.max_gpus_per_container, context.max_gpus_per_pod) != (None, None)
            case Need.GPU_MANAGER:
                return _uses("gpu-manager", {VCUDA_CORE, VCUDA_MEMORY}, context)
            case Need.HAMI:
                return _uses("hami", {HAMI_MEMORY, HAMI_CORES, HAMI_PERCENTAGE}, context)


def _uses(product: str, resources: Set[str], context: Context) -> bool:
    """Return whether a cluster uses a product, by platform or by its resources."""
    return context.platform == product or not resources.isdisjoint(context.resource_names)


class Declared(StrEnum):
    """Settings without which a rule is only advice; with them it is mandatory."""

    TRUST = "a stack, or infrastructureNamespaces, declares which namespaces have node agents"
    CLUSTER = "a stack, pools or infrastructureNamespaces are declared"

    def holds(self, context: Context) -> bool:
        """Return whether it is declared for a cluster."""
        is_cluster = self is Declared.CLUSTER and bool(context.pools)
        return is_cluster or context.trust_is_declared


_IN_NAMESPACES = frozenset(
    {"ConfigMap", "Secret", "LimitRange", "ResourceQuota", "HorizontalPodAutoscaler"}
    | {"ScaledObject"}
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A manifest, with the parts that rules read extracted once for all rules.

    Attributes:
        manifest: The manifest as plain data.
        kind: Kind of the object.
        namespace: Namespace, or empty if none is given.
        pod: The pod or pod template in the manifest, or None.
        is_first: Whether this is the first subject of its manifest: a custom object has one for
            each pod.
        namespace_known: False if the namespace is not known yet.
        stack: Name of the chart or kustomization that rendered the object, or empty. Objects of two
            of them are never part of one stack; all other objects are part of each stack.
    """

    manifest: Mapping[str, object]
    kind: str
    name: str
    namespace: str
    pod: Pod | None
    namespace_known: bool = True
    is_first: bool = True
    stack: str = ""

    @classmethod
    def of(cls, manifest: Mapping[str, object], default_namespace: str = "") -> Subject:
        """Return the parts of a manifest that rules read, without an error for any content.

        Args:
            manifest: Plain data as in YAML.
            default_namespace: Namespace of a namespaced object that names none.
        """
        return cls._with(manifest, find_pod(manifest), default_namespace)

    @classmethod
    def all_of(cls, manifest: Mapping[str, object], default_namespace: str = "") -> list[Subject]:
        """Return one `Subject` per pod in a custom object, or one for any other manifest.

        Args:
            manifest: Plain data as in YAML.
            default_namespace: Namespace of a namespaced object that names none.
        """
        pods = list(custom.pods(manifest)) if custom.is_custom(manifest) else []
        if not pods:
            return [cls.of(manifest, default_namespace)]
        subjects = (cls._with(manifest, pod, default_namespace) for pod in pods)
        return [replace(subject, is_first=index == 0) for index, subject in enumerate(subjects)]

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
        """Return the object's kind, namespace and name as messages show them."""
        name = "/".join(filter(None, (self.namespace, self.name)))
        return f"{self.kind} {name}".strip()

    @property
    def group_version(self) -> str:
        """Return the manifest's `apiVersion`."""
        return text(self.manifest.get("apiVersion"))

    @property
    def annotations(self) -> Mapping[str, object]:
        """Return the annotations of the object and its pod template; those of the object win."""
        object_annotations = mapping(at(self.manifest, "metadata", "annotations"))
        return (
            {**mapping(at(self.pod.metadata, "annotations")), **object_annotations}
            if self.pod
            else object_annotations
        )

    def daemon_set(self, context: Context) -> object:
        """Return the name of the DaemonSet that the object is or that made it, or None.

        The name is `UNKNOWN` if the object may be a DaemonSet's pod. Everybody can write an owner
        and a uid into a manifest. So an owner counts only in objects that the user declares as
        read from a cluster.
        """
        if self.kind == "DaemonSet":
            return self.name
        owners = at(self.manifest, "metadata", "ownerReferences")
        if owners is UNKNOWN or any(map(holds_unknown, sequence(owners))):
            return UNKNOWN
        if not context.observed:
            return None
        made_by = (owner for owner in sequence(owners) if at(owner, "controller") is True)
        return next((text(at(o, "name")) for o in made_by if at(o, "kind") == "DaemonSet"), None)

    def is_workload(self, context: Context) -> bool:
        """Return whether the object is known to be none that the rules trust."""
        if not self.namespace_known or self.namespace in context.trusted_namespaces:
            return False
        return not context.trusts_daemon_set(self.namespace, text(self.daemon_set(context)))


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a manifest breaks a rule.

    Attributes:
        found: What was found.
        wanted: What the rule requires.
        container: Name of the container, or empty if the field is not in a container.
        is_opinion: Whether the finding is advice as long as no cluster is declared, although the
            rule is mandatory: nothing breaks, but most clusters don't want it.
    """

    path: str
    found: str
    wanted: str
    cure: str
    container: str = ""
    is_opinion: bool = False


Check = Callable[[Subject, Context], Iterator[Finding]]
StackCheck = Callable[[Sequence[Subject], Context], Iterator[tuple[Subject, Finding]]]


def _find_nothing(_: Subject, __: Context) -> Iterator[Finding]:
    yield from ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for one manifest, or for all manifests of a stack together.

    Attributes:
        id: `GPU001` and so on; an id is never used for another rule.
        title: What the rule requires, in one sentence.
        severity: Default severity.
        mandatory_if: What must be declared for an advisory rule to be mandatory by default.
        listed: Maximum number of advisory violations that the text output lists. If there are
            more, it lists the first one and counts the others.
        opinions: Which findings of a mandatory rule are opinions (`Finding.is_opinion`), in words.
        why: Reason for the rule, for the reference.
        source: Documents or source code that the rule is based on, for the reference.
        check: Pure function that yields the findings in one manifest and never raises an error.
        across: The same function for the manifests of all stacks together, or None. It gets each
            object once, those outside of charts and kustomizations first, and must not compare
            objects of two stacks (`Subject.stack`).
        needs: Facts about the cluster that the rule needs.
        whole: Whether the rule reports missing fields, so that it must skip patches.
        of_requests: Whether a rule that reports missing fields also holds for requests for GPUs
            that stand in no pod, in objects of custom kinds.
    """

    id: str
    title: str
    severity: Severity
    why: str
    source: str
    check: Check = _find_nothing
    across: StackCheck | None = None
    needs: frozenset[Need] = frozenset()
    whole: bool = False
    of_requests: bool = False
    mandatory_if: Declared | None = None
    opinions: str = ""
    listed: int = 8

    def severity_in(self, context: Context) -> Severity:
        """Return the severity of the rule, by the settings or by default."""
        is_mandatory = self.mandatory_if is not None and self.mandatory_if.holds(context)
        default = Severity.MANDATORY if is_mandatory else self.severity
        return context.severities.get(self.id, default)

    def severity_of(self, finding: Finding, context: Context) -> Severity:
        """Return the severity of one finding of the rule."""
        if finding.is_opinion and self.id not in context.severities:
            is_advice = not Declared.CLUSTER.holds(context)
            return Severity.ADVISORY if is_advice else self.severity_in(context)
        return self.severity_in(context)

    @property
    def is_only_across(self) -> bool:
        """Return whether the rule checks only a stack as a whole, and no single manifests."""
        return self.across is not None and self.check is _find_nothing

    def reads(self, pod: Pod | None) -> bool:
        """Return whether the rule checks this pod.

        A rule that reports missing fields skips pods to which other objects add fields. It also
        skips GPU requests outside of pods, unless the rule is only about requests.
        """
        if pod is None or not self.whole:
            return True
        return pod.whole and (self.of_requests or not pod.loose)


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding with its rule, the object, and the severity in this context.

    Attributes:
        rule: The broken rule.
        severity: Severity in this context.
        subject: Kind, namespace and name of the object.
        container: Name of the container, or empty.
        found: What was found.
        wanted: What the rule requires.
        exemption: End date and reason of the exemption that makes this advice, or empty.
        stack: Name of the chart or kustomization that rendered the object, or empty.
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
    stack: str = ""

    @property
    def message(self) -> str:
        """Return one line with rule, object, container, path, found, wanted, cure and exemption."""
        place = f"{self.subject}, container {self.container}" if self.container else self.subject
        line = (
            f"{self.rule.id} {self.rule.title}: {place}: {self.path}: "
            f"{worded(self.found, self.wanted, self.cure)}"
        )
        return f"{line} [exempt {self.exemption}]" if self.exemption else line
