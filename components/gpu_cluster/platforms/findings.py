"""Checks of a cluster that several platforms share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.kubernetes.managers import NFD, Manager
from gpu_rules.faults import Fault
from gpu_rules.kube.taints import NodeTaint

# Oldest Kubernetes version that the client library supports (kr8s 0.20.15, kr8s/_constants.py).
FLOOR = (1, 28)
# First Kubernetes version with ValidatingAdmissionPolicy in `admissionregistration.k8s.io/v1`
# (Kubernetes 1.30, "ValidatingAdmissionPolicy is GA").
GUARDRAILS_FLOOR = (1, 30)
# First Kubernetes version that serves `resource.k8s.io/v1` by default (1.34, "DRA is GA").
DRA_FLOOR = (1, 34)


@dataclass(frozen=True, kw_only=True)
class PodAdmission:
    """Objects by which the API server admits or refuses the platform's pods.

    Attributes:
        priority_classes: Names of the PriorityClasses; None if they can't be read.
        runtime_classes: Names of the RuntimeClasses; None if they can't be read.
        levels: Level of Pod Security that a namespace enforces; only namespaces with the label.
        quotas: ResourceQuotas by namespace of the platform's pods.
        ranged: Namespaces of the platform's pods that have a LimitRange.
    """

    priority_classes: frozenset[str] | None = None
    runtime_classes: frozenset[str] | None = None
    levels: Mapping[str, str] = field(default_factory=dict)
    quotas: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    ranged: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """State of those parts of a cluster that this stack does not manage, as inspected.

    Attributes:
        version: Version of the API server.
        groups: Served API versions by API group.
        namespaces: Namespaces that this program created.
        taken: Namespaces that the stack would create but that somebody else already created.
        shared: Namespaces that the stack would create but that another stack created, with the
            field manager of that stack.
        managers: DaemonSets that allocate GPUs or discover node features.
        tainting: True if a Node Feature Discovery may taint nodes.
        engines: Container engine and its version, by node.
        drivers: Driver version that GPU Feature Discovery reports, by node.
        endpoints: Connection error by endpoint; empty text if the endpoint is reachable.
        service_ranges: Address ranges of Services. Empty if unknown: Kubernetes has served them
            since 1.33 (ServiceCIDR).
        taints: Taints of others that keep pods off a node for good, by node.
        address_owner: Service that has the platform's declared address, as `namespace/name`. Empty
            if no Service is known to have the address.
        admission: Objects that decide whether pods are created. None: not inspected.
    """

    version: str
    groups: Mapping[str, list[str]] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    shared: Mapping[str, str] = field(default_factory=dict)
    managers: tuple[Manager, ...] = ()
    tainting: bool = False
    engines: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, str] = field(default_factory=dict)
    service_ranges: tuple[str, ...] = ()
    taints: Mapping[str, tuple[NodeTaint, ...]] = field(default_factory=dict)
    address_owner: str = ""
    admission: PodAdmission | None = None


def numbers(text: str) -> tuple[int, int]:
    """Return the major and minor number of a version; (0, 0) if the text contains none."""
    match = re.search(r"([0-9]{1,6})\.([0-9]{1,6})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def value_at(values: Mapping[str, Any], *path: str, default: Any = None) -> Any:
    """Return the value at a path of keys in a chart's values; the default if there is none."""
    value: Any = values
    for step in path:
        value = value.get(step, default) if isinstance(value, Mapping) else default
    return value


def claims_served(context: str, surroundings: Surroundings) -> Iterator[Fault]:
    """Yield a fault if the cluster does not support Dynamic Resource Allocation."""
    if numbers(surroundings.version) >= FLOOR and "v1" not in surroundings.groups.get(
        "resource.k8s.io", []
    ):
        yield Fault(
            f"cluster {context}",
            f"Kubernetes {surroundings.version} without resource.k8s.io/v1",
            f"{DRA_FLOOR[0]}.{DRA_FLOOR[1]} or later, with Dynamic Resource Allocation",
            "upgrade the cluster, or declare another platform",
        )


def features_twice(surroundings: Surroundings, cure: str) -> Iterator[Fault]:
    """Yield a fault for each running Node Feature Discovery that the chart did not install."""
    for item in surroundings.managers:
        is_foreign = item.namespace not in surroundings.namespaces
        if item.what == NFD and is_foreign and item.reaches_node:
            yield Fault(
                f"DaemonSet {item.namespace}/{item.name}",
                "another Node Feature Discovery in the cluster",
                "only one Node Feature Discovery: two would write the same labels",
                cure,
            )
