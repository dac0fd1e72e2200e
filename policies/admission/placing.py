"""Who may put pods on nodes and give claims their devices: schedulers.

A binding names a pod and a node, and can set the pod's annotations. The policies over pods don't
see it, and it doesn't hold the pod that they could judge. The same is true of the allocation in
the status of a ResourceClaim. So the API server's authorizer is asked for who may do this in all
namespaces: Kubernetes' scheduler may, other schedulers with a ClusterRole too, and a tenant with
all rights in his own namespace may not.
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
# Without a namespace the question is about all of them.
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
    """Return the policy over bindings and allocations, and its binding.

    Args:
        labels: of both objects.
        actions: the binding's `validationActions`.
        failure_policy: `Fail` or `Ignore`.
        namespaces: the selector of the namespaces in which it holds.
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
