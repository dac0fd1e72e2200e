"""Findings that several platforms have in common. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from components.kubernetes.managers import NFD, Manager
from policies.faults import Fault

#: The oldest Kubernetes that this program's client supports (kr8s 0.20.15, kr8s/_constants.py).
FLOOR = (1, 28)
#: ``admissionregistration.k8s.io/v1`` has ValidatingAdmissionPolicy from here on (Kubernetes 1.30,
#: "ValidatingAdmissionPolicy is GA").
GUARDRAILS_FLOOR = (1, 30)
#: ``resource.k8s.io/v1`` is served from here on by default (Kubernetes 1.34, "DRA is GA").
DRA_FLOOR = (1, 34)


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What is in the cluster beside us, and who answers.

    Attributes:
        version: of the API server.
        groups: API versions by group.
        namespaces: those that this program made.
        taken: names that our namespaces should have, and others have.
        managers: DaemonSets that give GPUs out or find features.
        tainting: whether a Node Feature Discovery may taint nodes.
        engines: container engine and version, by node.
        endpoints: why each could not be reached; empty where it could.
    """

    version: str
    groups: Mapping[str, list[str]] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    managers: tuple[Manager, ...] = ()
    tainting: bool = False
    engines: Mapping[str, str] = field(default_factory=dict)
    endpoints: Mapping[str, str] = field(default_factory=dict)


def numbers(text: str) -> tuple[int, int]:
    """Major and minor of a version; (0, 0) where there is none."""
    match = re.search(r"([0-9]{1,6})\.([0-9]{1,6})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def claims_served(context: str, seen: Surroundings) -> Iterator[Fault]:
    """Require Dynamic Resource Allocation, for a platform that needs it."""
    if numbers(seen.version) >= FLOOR and "v1" not in seen.groups.get("resource.k8s.io", []):
        yield Fault(
            f"cluster {context}",
            f"Kubernetes {seen.version} without resource.k8s.io/v1",
            f"{DRA_FLOOR[0]}.{DRA_FLOOR[1]} or later, with Dynamic Resource Allocation",
            "upgrade the cluster, or declare another platform",
        )


def features_twice(seen: Surroundings, cure: str) -> Iterator[Fault]:
    """A Node Feature Discovery that is there already, for a platform whose chart brings one."""
    for item in seen.managers:
        if item.what == NFD and item.namespace not in seen.namespaces:
            yield Fault(
                f"DaemonSet {item.namespace}/{item.name}",
                "a Node Feature Discovery that is there already",
                "one of them: two write the same labels",
                cure,
            )
