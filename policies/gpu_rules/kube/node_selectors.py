"""Find the nodes that a pod's node selector and required node affinity admit.

Source: k8s.io/component-helpers v0.36.3 scheduling/corev1/nodeaffinity (GetRequiredNodeAffinity)
and k8s.io/apimachinery v0.36.3 pkg/labels/selector.go (Requirement.Matches).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = Mapping[str, Any]
OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")


def is_node_selected(pod_spec: Json, node: Json) -> bool:
    """Return whether a pod's node selector and required node affinity admit a node."""
    labels = node["metadata"].get("labels") or {}
    selector = pod_spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_is_matched(term, node) for term in required.get("nodeSelectorTerms") or ())


def _is_matched(term: Json, node: Json) -> bool:
    """Return whether a node matches a term; no node matches a term without requirements."""
    requirements = [
        (requirement, values)
        for field, values in (
            ("matchExpressions", node["metadata"].get("labels") or {}),
            ("matchFields", {"metadata.name": node["metadata"]["name"]}),
        )
        for requirement in term.get(field) or ()
    ]
    return bool(requirements) and all(
        meets(
            values.get(requirement["key"]), requirement["operator"], requirement.get("values") or ()
        )
        for requirement, values in requirements
    )


def meets(value: str | None, operator: object, values: Sequence[str]) -> bool:
    """Return whether the value of a label meets a requirement of a node selector.

    Args:
        value: Value of the label, or None if the node lacks it.
        operator: One of `OPERATORS`; a node meets no other operator.
        values: Values of the requirement.
    """
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            numbers = [_parse_integer(text) for text in (value, *values)]
            if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
                return False
            return numbers[0] > numbers[1] if operator == "Gt" else numbers[0] < numbers[1]
    return False


def _parse_integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    return number if -(2**63) <= (number := int(text)) < 2**63 else None
