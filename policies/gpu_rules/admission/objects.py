"""Functions that build ValidatingAdmissionPolicy objects and their bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_API_VERSION: Final = "admissionregistration.k8s.io/v1"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bound:
    """A ValidatingAdmissionPolicy and its binding, which have the same name."""

    policy: Json
    binding: Json

    @property
    def name(self) -> str:
        """Return the name of both objects."""
        return str(self.policy["metadata"]["name"])


def bound_policy(
    name: str,
    labels: Mapping[str, str],
    spec: Mapping[str, Any],
    actions: Sequence[str],
    *,
    namespaces: Mapping[str, Any] | None = None,
) -> list[Json]:
    """Return a ValidatingAdmissionPolicy and its binding, which have the same name.

    Args:
        name: Name of both objects.
        labels: Labels of both objects.
        spec: Spec of the policy.
        actions: `validationActions` of the binding.
        namespaces: Selector of the namespaces in which the policy applies; None means all
            namespaces.
    """
    binding: Json = {"policyName": name}
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
    """Return an entry of an admission policy's `matchConstraints.resourceRules`, for version v1.

    Args:
        group: API group of the resources.
        operations: Operations, such as `CREATE`.
        resources: Resources and subresources, such as `pods/status`.
        scope: `Namespaced` or `Cluster`.
    """
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
        "scope": scope,
    }
