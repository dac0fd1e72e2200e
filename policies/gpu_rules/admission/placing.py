"""An admission policy that lets only schedulers bind pods to nodes and allocate devices to claims.

A Binding names a pod and a node, and can set the pod's annotations. The policies that check pods
don't match Bindings, and a Binding doesn't contain the pod to check. In the same way, the
allocation in the status of a ResourceClaim doesn't contain the pod. So this policy asks the API
server's authorizer whether the user may create bindings or allocations in all namespaces. The
Kubernetes scheduler has this right, and so has another scheduler with a ClusterRole. A tenant with
all rights in one namespace doesn't have it.
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
# The expression gives the authorizer no namespace, so it checks the right for all namespaces.
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
    """Return the admission policy for pod bindings and device allocations, and its policy binding.

    Args:
        labels: Labels of both objects.
        actions: `validationActions` of the policy binding.
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
