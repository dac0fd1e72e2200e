"""An admission policy that lets only schedulers choose the nodes and the devices of pods.

A Binding names a pod and a node, and can set the pod's annotations. The policies that check pods
don't match Bindings, and a Binding doesn't contain the pod to check. In the same way, the
allocation in the status of a ResourceClaim doesn't contain the pod. The status of a pod names the
claims that the kubelet takes for those of the pod's spec, and for its extended resources. Some
annotations of a pod assign GPUs to it (GPU020), and schedulers write them after its creation. So
this policy asks the API server's authorizer whether the user may do the same in all namespaces. The
Kubernetes scheduler and the claim controller have these rights, and so has another scheduler or
device plugin with a ClusterRole. A tenant with all rights in one namespace doesn't have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..rules.cel import OR_MAP, changed, text
from ..rules.isolation.gpu020_not_preassigned import ASSIGNING
from .objects import bound_policy, resource_rule

NAME: Final = "gpu-rules-placing"
_CLAIM = 'request.resource.resource == "resourceclaims"'
_POD = 'request.resource.resource == "pods" && request.?subResource.orValue("") != "binding"'
_ALLOCATION = "?status.?allocation"
_NEW, _OLD = (f"dyn({root}).metadata.?annotations{OR_MAP}" for root in ("object", "oldObject"))
_ASSIGNS = f"k.matches({text(ASSIGNING)})"
_CLAIMS_CHANGED = changed("status.?resourceClaimStatuses", "status.?extendedResourceClaimStatus")
_PLACES = (
    f"{_CLAIM} ? dyn(object).{_ALLOCATION}.hasValue() && "
    f"dyn(object).{_ALLOCATION} != dyn(oldObject).{_ALLOCATION} : "
    f"!({_POD}) || {_CLAIMS_CHANGED}"
    f" || {_NEW}.exists(k, {_ASSIGNS} && !(k in {_OLD} && {_OLD}[k] == {_NEW}[k]))"
    f" || {_OLD}.exists(k, {_ASSIGNS} && !(k in {_NEW}))"
)
_PODS = 'authorizer.group("").resource("pods")'
# The expression gives the authorizer no namespace, so it checks the right for all namespaces.
_ALLOWED = (
    f'{_CLAIM} ? authorizer.group("resource.k8s.io").resource("resourceclaims")'
    '.subresource("status").check("update").allowed() : '
    f'{_POD} ? {_PODS}.check("patch").allowed() || '
    f'{_PODS}.subresource("status").check("patch").allowed() : '
    f'{_PODS}.subresource("binding").check("create").allowed()'
)


def manifests(
    labels: Mapping[str, str],
    actions: Sequence[str],
    failure_policy: str,
    namespaces: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return the admission policy for nodes and devices of pods, and its policy binding.

    Args:
        labels: Labels of both objects.
        actions: `validationActions` of the policy binding.
        failure_policy: `Fail` or `Ignore`.
        namespaces: Selector of the namespaces in which the policy applies.
    """
    rules = [
        resource_rule("", ["CREATE"], "bindings", "pods/binding"),
        resource_rule("", ["UPDATE"], "pods", "pods/status"),
        resource_rule("resource.k8s.io", ["UPDATE"], "resourceclaims/status"),
    ]
    spec = {
        "failurePolicy": failure_policy,
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "places", "expression": _PLACES}],
        "validations": [
            {
                "expression": _ALLOWED,
                "message": "This user may not place pods on nodes or give devices to pods and "
                "claims: only a scheduler may, which can create pods/binding, patch pods and "
                "update resourceclaims/status in all namespaces. Leave nodeName, bindings and the "
                "annotations of schedulers out, and select nodes by nodeSelector.",
                "reason": "Forbidden",
            }
        ],
    }
    return bound_policy(NAME, labels, spec, actions, namespaces=namespaces)
