"""An admission policy that controls who may exempt a namespace from the GPU rules.

The policy also controls who may grant exemptions to the objects in a namespace, who may create a
namespace with a name that the rules trust, and who may write a DaemonSet with such a name. Without
the policy, everyone who may edit or create these objects could exempt their own workloads. The
policy asks the API server's authorizer whether the user has the verb `grant` for the resource
`exemptions.guardrails.gpu-cluster`, which exists only for this check. A ClusterRole allows it with:

    rules: [{apiGroups: [guardrails.gpu-cluster], resources: [exemptions], verbs: [grant]}]
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ..rules.cel import OR_MAP, changed, text, texts, trusts_daemon_set
from ..rules.exemptions import GRANT, PREFIX
from .objects import bound_policy, resource_rule

OPT_OUT: Final = "gpu-cluster/guardrails"
"""Label of namespaces. With the value `exempt`, the GPU rules don't apply in the namespace."""

NAME: Final = "gpu-rules-grants"
_NEW = 'request.operation == "CREATE"'
_ALLOWED = (
    'authorizer.group("guardrails.gpu-cluster").resource("exemptions").check("grant").allowed()'
)


def _label(owner: str) -> str:
    return f'{owner}.metadata.?labels[?{text(OPT_OUT)}].orValue("")'


def _annotations_cel(owner: str) -> str:
    return f"{owner}.metadata.?annotations{OR_MAP}"


_TOUCHED = (
    f'({_label("object")} == "exempt" && ({_NEW} || {_label("oldObject")} != "exempt")) || '
    f"{_annotations_cel('object')}.exists(k, (k.startsWith({text(GRANT)}) || "
    f"k.startsWith({text(PREFIX)})) && ({_NEW} || "
    f"{_annotations_cel('oldObject')}[?k] != {_annotations_cel('object')}[?k]))"
)


def manifests(
    trusted: Collection[str],
    daemon_sets: Collection[str],
    labels: Mapping[str, str],
    actions: Sequence[str],
    failure_policy: str,
) -> list[dict[str, Any]]:
    """Return the admission policy for changes of Namespaces, and its binding.

    Args:
        trusted: Names of namespaces in which the rules don't apply, whether or not they exist.
        daemon_sets: DaemonSets to which the rules don't apply, as `Context.daemon_sets` has them.
        labels: Labels of both objects.
        actions: `validationActions` of the binding.
        failure_policy: `Fail` or `Ignore`.
    """
    lifts = f"({_NEW} && object.metadata.name in {texts(trusted)}) || {_TOUCHED}"
    # A request to a subresource of a Namespace can also change its labels and annotations.
    resources = ("namespaces", "namespaces/finalize", "namespaces/status")
    both = ("CREATE", "UPDATE")
    rules = [resource_rule("", both, *resources, scope="Cluster")]
    if daemon_sets:
        key = 'request.namespace + "/" + object.metadata.name'
        written = f"({_NEW} || {changed('spec')}) && {trusts_daemon_set(key, texts(daemon_sets))}"
        lifts = f'request.resource.resource == "daemonsets" ? ({written}) : ({lifts})'
        rules.append(resource_rule("apps", both, "daemonsets"))
    spec = {
        "failurePolicy": failure_policy,
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "lifts-rules", "expression": lifts}],
        "validations": [
            {
                "expression": _ALLOWED,
                "message": f"found a label or annotation that lifts GPU rules ({OPT_OUT}, "
                f"{GRANT}, {PREFIX}), or a new namespace or a DaemonSet with a name that the "
                "rules trust, by a user who may not; wanted: a user who may grant "
                "exemptions.guardrails.gpu-cluster; cure: choose another name, or ask an "
                "administrator",
                "reason": "Forbidden",
            }
        ],
    }
    return bound_policy(NAME, labels, spec, actions)
