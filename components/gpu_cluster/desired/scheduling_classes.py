"""Manifests of PriorityClasses, LimitRanges per namespace, and NodeFeatureRules.

The namespace of a LimitRange must exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.nodes.scheduling import NamespaceLimit, NodeFeatures, PriorityClass

FEATURE = "feature.node.kubernetes.io/"

# Labels of Node Feature Discovery and the features they come from (node-feature-discovery v0.19.0,
# docs/usage/features.md): pattern of the label's name, mapped to the feature.
_SIMPLE = {
    r"cpu-model\.(?P<name>\w+)": "cpu.model",
    r"kernel-version\.(?P<name>\w+)": "kernel.version",
    r"system-os_release\.(?P<name>\w+)": "system.osrelease",
}
_PCI = re.compile(r"pci-(?:(?P<class>[0-9a-f]{4})_)?(?P<vendor>[0-9a-f]{4})\.present")


def features(selector: dict[str, str]) -> list[dict[str, Any]] | None:
    """Return the `matchFeatures` of a NodeFeatureRule that matches the same nodes as a selector.

    A NodeFeatureRule matches features, not labels. Return None if a label comes from no known
    feature.
    """
    rules: list[dict[str, Any]] = []
    for label, value in sorted(selector.items()):
        name = label.removeprefix(FEATURE)
        if name == label:
            return None
        if (pci := _PCI.fullmatch(name)) and value == "true":
            pci_fields = {key: text for key, text in pci.groupdict().items() if text}
            expressions = {key: {"op": "In", "value": [text]} for key, text in pci_fields.items()}
            rules.append({"feature": "pci.device", "matchExpressions": expressions})
            continue
        for pattern, feature in _SIMPLE.items():
            if match := re.fullmatch(pattern, name):
                expression = {match["name"]: {"op": "In", "value": [value]}}
                rules.append({"feature": feature, "matchExpressions": expression})
                break
        else:
            return None
    return rules


def is_by_rule(by: NodeFeatures, pool: Pool) -> bool:
    """Return True if a NodeFeatureRule labels and taints the pool's nodes."""
    return (
        by is NodeFeatures.RULE
        and pool.selector is not None
        and features(dict(pool.selector)) is not None
    )


def node_feature_rule(pool: Pool, labels: dict[str, str], stack: str) -> dict[str, Any]:
    """Return the NodeFeatureRule of a pool; one rule covers all nodes that join the pool."""
    rule: dict[str, Any] = {
        "name": pool.name,
        "labels": labels,
        "matchFeatures": features(dict(pool.selector or {})),
    }
    if pool.taints:
        rule["taints"] = [taint.plain for taint in pool.taints]
    return {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeatureRule",
        "metadata": {"name": f"gpu-cluster-{stack}-{pool.name}", "labels": LABELS},
        "spec": {"rules": [rule]},
    }


def priority_class(declared: PriorityClass) -> dict[str, Any]:
    """Return a PriorityClass; Kubernetes allows later changes of its description only."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": declared.name, "labels": LABELS},
        "value": declared.value,
        "globalDefault": False,
        "preemptionPolicy": "PreemptLowerPriority" if declared.preempts else "Never",
        "description": declared.description,
    }


def limit_range(limit: NamespaceLimit, most: Mapping[str, str]) -> dict[str, Any]:
    """Return a LimitRange with the maximum of each GPU resource that a container may request.

    Without a default, the API server uses the maximum as the default for every container that
    requests nothing (kubernetes v1.34.4, pkg/apis/core/v1/defaults.go,
    SetDefaults_LimitRangeItem). The default is therefore 0.
    """
    none = dict.fromkeys(most, "0")
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "gpu-cluster", "namespace": limit.namespace, "labels": LABELS},
        "spec": {"limits": [{"type": "Container", "max": dict(most), "default": none}]},
    }
