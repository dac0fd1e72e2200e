"""Findings that several platforms have in common. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from components.nodes.managers import NFD
from config.problem import Fault

Json = dict[str, Any]

#: The oldest Kubernetes that this program's client supports (kr8s 0.20.15, kr8s/_constants.py).
FLOOR = (1, 28)
#: ``admissionregistration.k8s.io/v1`` has ValidatingAdmissionPolicy from here on (Kubernetes 1.30,
#: "ValidatingAdmissionPolicy is GA").
GUARDRAILS_FLOOR = (1, 30)
#: ``resource.k8s.io/v1`` is served from here on by default (Kubernetes 1.34, "DRA is GA").
DRA_FLOOR = (1, 34)


def numbers(text: str) -> tuple[int, int]:
    """Major and minor of a version; (0, 0) where there is none."""
    match = re.search(r"([0-9]{1,6})\.([0-9]{1,6})", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def claims_served(context: str, seen: Json) -> Iterator[Fault]:
    """Require Dynamic Resource Allocation, for a platform that needs it."""
    if numbers(seen["version"]) >= FLOOR and "v1" not in seen["groups"].get("resource.k8s.io", []):
        yield Fault(
            f"cluster {context}",
            f"Kubernetes {seen['version']} without resource.k8s.io/v1",
            f"{DRA_FLOOR[0]}.{DRA_FLOOR[1]} or later, with Dynamic Resource Allocation",
            "upgrade the cluster, or declare another platform",
        )


def features_twice(seen: Json, cure: str) -> Iterator[Fault]:
    """A Node Feature Discovery that is there already, for a platform whose chart brings one."""
    for item in seen["daemonSets"]:
        if item["what"] == NFD and item["namespace"] not in seen["namespaces"]:
            yield Fault(
                f"DaemonSet {item['namespace']}/{item['name']}",
                "a Node Feature Discovery that is there already",
                "one of them: two write the same labels",
                cure,
            )
