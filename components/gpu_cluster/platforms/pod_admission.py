"""Judge whether an API server admits the pods of the platform, before a run creates them.

Sources: kubernetes v1.37.2, plugin/pkg/admission/{priority,runtimeclass} and
pkg/quota/v1/evaluator/core/pods.go; k8s.io/pod-security-admission v0.36.2, policy/check_*.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from gpu_cluster.platforms.base import Platform
from gpu_cluster.platforms.discovery import section_of
from gpu_cluster.platforms.findings import PodAdmission, Surroundings, value_at
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.kube.quantity import read_milli
from gpu_rules.printable import counted, printable

Json = Mapping[str, Any]

SYSTEM_CLASSES = frozenset({"system-node-critical", "system-cluster-critical"})
"""PriorityClasses that each API server creates (kubernetes v1.37.2, pkg/apis/scheduling)."""
CHART_CLASS = "system-node-critical"
"""PriorityClass of the pods that allocate GPUs, as each supported chart has it by default."""
_COMPUTE = frozenset({"cpu", "memory"})
_SHOWN = 120
_NO_PODS = "the API server refuses the platform's pods otherwise"
_DISCOVERY = "nfd.k8s-sigs.io"


@dataclass(frozen=True)
class _Named:
    """A name in values or manifests, and the path where it is written."""

    path: str
    name: str


def refused_pods(
    platform: Platform, seen: Surroundings, nodes: int, priority_classes: Collection[str]
) -> Iterator[Fault]:
    """Yield a fault for each reason why the API server would refuse the platform's pods.

    Args:
        platform: The declared platform.
        seen: State of the cluster.
        nodes: Number of nodes with GPUs, each of which needs at least one pod.
        priority_classes: PriorityClasses that the stack creates.
    """
    yield from _unserved(platform, seen)
    admission = seen.admission
    if admission is None:
        return
    documents = list(_documents(platform))
    classes = admission.priority_classes
    for named in _named(documents, "priorityClassName") if classes is not None else ():
        if named.name not in {*(classes or ()), *SYSTEM_CLASSES, *priority_classes}:
            yield Fault(
                named.path,
                f"PriorityClass {printable(named.name, _SHOWN)}, which the cluster does not have",
                f"a PriorityClass of the cluster, or one that the stack creates: {_NO_PODS}",
                f"write {CHART_CLASS}, or declare the class in scheduling.priorityClasses",
            )
    yield from _missing_runtime_classes(platform, admission, documents)
    for namespace, priorities in _priorities(platform, documents).items():
        yield from _low_level(namespace, admission)
        yield from _quota_faults(namespace, priorities, admission, seen.version, nodes)
    yield from _uncounted(platform, admission)


def _documents(platform: Platform) -> Iterator[tuple[str, str, Json]]:
    """Yield the path, the namespace and the content of values and manifests of the platform."""
    installation = platform.installation
    if installation.release is not None and platform.site.adopted:
        yield "adopted.release.values", installation.namespace, installation.values
    elif installation.release is not None:
        # This program's own values name only classes that every cluster has.
        section = to_camel(section_of(platform.site.platform))
        extra = getattr(platform.settings, "extra_values", {})
        yield f"{section}.extraValues", installation.namespace, extra
    for number, item in enumerate(installation.objects if installation.release is None else ()):
        metadata = item.manifest["metadata"]
        yield f"adopted.objects[{number}]", metadata["namespace"], item.manifest


def _named(documents: Sequence[tuple[str, str, Json]], key: str) -> list[_Named]:
    return [named for path, _, content in documents for named in _names_below(path, content, key)]


def _names_below(path: str, content: Any, key: str) -> Iterator[_Named]:
    """Yield the texts below a key at any level, without sections that are off."""
    if isinstance(content, Mapping) and content.get("enabled") is not False:
        for name, value in content.items():
            if name == key and isinstance(value, str) and value:
                yield _Named(f"{path}.{name}", value)
            yield from _names_below(f"{path}.{name}", value, key)


def _missing_runtime_classes(
    platform: Platform, admission: PodAdmission, documents: Sequence[tuple[str, str, Json]]
) -> Iterator[Fault]:
    if admission.runtime_classes is None:
        return
    created = platform.engines.runtime_classes
    for named in _named(documents, "runtimeClassName"):
        if named.name not in created.union(admission.runtime_classes):
            yield Fault(
                named.path,
                f"RuntimeClass {printable(named.name, _SHOWN)}, which nothing creates",
                f"a RuntimeClass of the cluster: {_NO_PODS}",
                "remove it, or create the RuntimeClass: its handler is a runtime in the engine's "
                "configuration",
            )


def _priorities(
    platform: Platform, documents: Sequence[tuple[str, str, Json]]
) -> dict[str, set[str]]:
    """Return the PriorityClasses of the pods that allocate GPUs, by namespace."""
    if platform.installation.release is not None:
        placing = platform.placing_values(platform.installation.values)
        chosen = placing.get("priorityClassName")
        return {platform.installation.namespace: {str(chosen or CHART_CLASS)}}
    found: dict[str, set[str]] = {}
    for path, namespace, manifest in documents:
        classes = {named.name for named in _names_below(path, manifest, "priorityClassName")}
        found.setdefault(namespace, set()).update(classes or {""})
    return found


def _low_level(namespace: str, admission: PodAdmission) -> Iterator[Fault]:
    """Yield a fault if Pod Security refuses the socket of kubelet, a folder of the host.

    Each plugin that allocates GPUs registers there (deviceplugin/v1beta1/constants.go,
    `KubeletSocket`), and the level `baseline` allows no volume of the kind hostPath.
    """
    level = admission.levels.get(namespace, "privileged")
    if level in ("baseline", "restricted"):
        yield Fault(
            f"namespace {namespace}",
            f"the label pod-security.kubernetes.io/enforce={level}",
            f"privileged, because the plugin mounts folders of the host: {_NO_PODS}",
            f"`kubectl label namespace {namespace} --overwrite "
            "pod-security.kubernetes.io/enforce=privileged`, if you trust its pods",
        )


def _quota_faults(
    namespace: str, priorities: Collection[str], admission: PodAdmission, version: str, nodes: int
) -> Iterator[Fault]:
    quotas = admission.quotas.get(namespace, ())
    for priority in sorted(priorities):
        limits_critical = "-gke." in version and namespace != "kube-system"
        if (
            priority in SYSTEM_CLASSES
            and limits_critical
            and not any(_names_class(quota, priority) for quota in quotas)
        ):
            # GKE's API server accepts these classes outside kube-system only in namespaces with a
            # quota for them (admission plugin ResourceQuota, `limitedResources`).
            yield Fault(
                f"namespace {namespace}",
                f"no ResourceQuota of PriorityClass {priority}, which GKE demands outside "
                "kube-system",
                f"a PriorityClass of your own for the pods, or such a quota: {_NO_PODS}",
                "declare a class in scheduling.priorityClasses, and name it as priorityClassName "
                "of the chart's pods in extraValues; for adopted software, create a ResourceQuota "
                "whose scopeSelector names the class",
            )
        for quota in quotas:
            most = _most_pods(quota)
            if _counts(quota, priority) and most is not None and most < nodes:
                name = str(quota["metadata"]["name"])
                yield Fault(
                    f"ResourceQuota {namespace}/{printable(name, _SHOWN)}",
                    f"at most {counted(most, 'pod')}",
                    f"{nodes} or more, a pod on each node with GPUs: {_NO_PODS}",
                    f"raise `pods` of the ResourceQuota to at least {nodes}, or delete it",
                )


def _uncounted(platform: Platform, admission: PodAdmission) -> Iterator[Fault]:
    """Yield a warning if a ResourceQuota counts resources that the pods may not declare.

    A quota of `requests.cpu`, for instance, refuses each pod with a container that has no such
    request. Only a LimitRange can add it. What a chart's containers declare isn't known for all.
    """
    namespace = platform.installation.namespace
    for quota in admission.quotas.get(namespace, ()) if namespace not in admission.ranged else ():
        if _spec_of(quota).get("scopes") or _spec_of(quota).get("scopeSelector"):
            continue
        hard = _spec_of(quota).get("hard") or {}
        counted = sorted(key for key in hard if key.rpartition(".")[2] in _COMPUTE)
        if counted:
            yield Fault(
                f"ResourceQuota {namespace}/{printable(quota['metadata']['name'], _SHOWN)}",
                f"a quota of {printable(', '.join(counted), _SHOWN)}, and no LimitRange with "
                "defaults for these",
                f"containers that declare all that the quota counts: {_NO_PODS}",
                "create a LimitRange with default and defaultRequest in the namespace",
                severity=FaultSeverity.WARNING,
            )


def _spec_of(quota: Json) -> Json:
    spec: Json = quota.get("spec") or {}
    return spec


def _names_class(quota: Json, priority: str) -> bool:
    """Return whether a quota is of pods with this PriorityClass, as limited classes need it."""
    selector = (_spec_of(quota).get("scopeSelector") or {}).get("matchExpressions") or ()
    return any(
        item.get("scopeName") == "PriorityClass" and _selects_class(item, priority)
        for item in selector
    )


def _selects_class(item: Json, priority: str) -> bool:
    operator, values = item.get("operator"), item.get("values") or ()
    if operator in ("Exists", "DoesNotExist"):
        return bool(priority) is (operator == "Exists")
    return (priority in values) is (operator == "In")


def _counts(quota: Json, priority: str) -> bool:
    """Return whether a quota counts each pod of a DaemonSet; False if that isn't certain."""
    scopes = [
        {"scopeName": name, "operator": "Exists"} for name in _spec_of(quota).get("scopes") or ()
    ]
    selector = (_spec_of(quota).get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(
        _selects_class(item, priority)
        if item.get("scopeName") == "PriorityClass"
        else item.get("scopeName") == "NotTerminating"
        for item in [*scopes, *selector]
    )


def _most_pods(quota: Json) -> int | None:
    hard = _spec_of(quota).get("hard") or {}
    return min(
        (read_milli(hard[key]) // 1000 for key in ("pods", "count/pods") if key in hard),
        default=None,
    )


def _unserved(platform: Platform, seen: Surroundings) -> Iterator[Fault]:
    """Yield a fault if a chart would create an object of a kind that the cluster doesn't serve.

    gpu-operator v26.7.0, templates/nodefeaturerules.yaml, has no other condition than the value.
    """
    values = platform.installation.values
    creates_rules = value_at(values, "nfd", "nodefeaturerules", default=False) is True
    brings_kinds = value_at(values, "nfd", "enabled", default=True) is not False
    if creates_rules and not brings_kinds and seen.groups and _DISCOVERY not in seen.groups:
        yield Fault(
            "gpuOperator.extraValues.nfd.nodefeaturerules",
            f"true, and the cluster does not serve {_DISCOVERY}: Helm installs nothing",
            "Node Feature Discovery in the cluster, with its CustomResourceDefinitions",
            'remove it, or write "nfd: true" in gpuOperator',
        )
