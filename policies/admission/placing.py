"""A policy that lets only schedulers bind pods to nodes and allocate devices to claims.

A Binding names a pod and a node, and can set the pod's annotations. The policies over pods don't
see a Binding, and a Binding doesn't contain the pod that they could check. The same is true of the
allocation in the status of a ResourceClaim. So the policy checks with the API server's authorizer
that the user may do this in all namespaces. The Kubernetes scheduler may, and so may another
scheduler with a ClusterRole; a tenant with all rights in one namespace may not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .objects import bound_policy, resource_rule

NAME: Final = "gpu-rules-placing"
_CLAIM = 'request.resource.resource == "resourceclaims"'
_ALLOCATION = "?status.?allocation"
_PLACES = (
    f"!({_CLAIM}) || (dyn(object).{_ALLOCATION}.hasValue() && "
    f"dyn(object).{_ALLOCATION} != dyn(oldObject).{_ALLOCATION})"
)
# The authorizer checks the right in all namespaces, because no namespace is given.
_ALLOWED = (
    f'{_CLAIM} ? authorizer.group("resource.k8s.io").resource("resourceclaims")'
    '.subresource("status").check("update").allowed() : '
    'authorizer.group("").resource("pods").subresource("binding").check("create").allowed()'
)


def manifests(
    labels: Mapping[str, str],
    actions: Sequence[str],
    failure_policy: str,
    namespaces: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the admission policy for pod bindings and device allocations, with its policy binding.

    Args:
        labels: Labels of both objects.
        actions: `validationActions` of the binding.
        failure_policy: `Fail` or `Ignore`.
        namespaces: Selector of the namespaces in which the policy applies.
    """
    rules = [
        resource_rule("", ["CREATE"], "bindings", "pods/binding"),
        resource_rule("resource.k8s.io", ["UPDATE"], "resourceclaims/status"),
    ]
    spec = {
        "failurePolicy": failure_policy,
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "places", "expression": _PLACES}],
        "validations": [
            {
                "expression": _ALLOWED,
                "message": "This user may not place pods on nodes or give devices to claims: "
                "only a scheduler may, which can create pods/binding and update "
                "resourceclaims/status in all namespaces. Leave nodeName and bindings out, "
                "and select nodes by nodeSelector.",
                "reason": "Forbidden",
            }
        ],
    }
    return bound_policy(NAME, labels, spec, actions, namespaces=namespaces)
