"""A ValidatingAdmissionPolicy with the binding that puts it in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_API_VERSION: Final = "admissionregistration.k8s.io/v1"

Json = dict[str, Any]


def bound_policy(
    name: str,
    labels: Mapping[str, str],
    spec: Mapping[str, Any],
    actions: Sequence[str],
    *,
    parameter: Mapping[str, Any] | None = None,
    namespaces: Mapping[str, Any] | None = None,
) -> list[Json]:
    """Return a policy and its binding, which have one name.

    Args:
        name: of both objects.
        labels: of both objects.
        spec: the policy's.
        actions: the binding's `validationActions`.
        parameter: the object that the policy reads; while it is missing, requests are refused.
        namespaces: the selector of the namespaces in which it holds; all without it.
    """
    binding: Json = {"policyName": name}
    if parameter is not None:
        binding["paramRef"] = {
            "name": parameter["metadata"]["name"],
            "namespace": parameter["metadata"]["namespace"],
            "parameterNotFoundAction": "Deny",
        }
    if namespaces is not None:
        binding["matchResources"] = {"namespaceSelector": dict(namespaces)}
    binding["validationActions"] = list(actions)
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": f"ValidatingAdmissionPolicy{suffix}",
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": dict(content),
        }
        for suffix, content in (("", spec), ("Binding", binding))
    ]


def resource_rule(
    group: str, operations: Sequence[str], *resources: str, scope: str = "Namespaced"
) -> Json:
    """Return what of one API group, in version v1, a policy looks at."""
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
        "scope": scope,
    }
