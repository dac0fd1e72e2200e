"""Who may leave a namespace alone, or grant exemptions in it: asked of the API server's authorizer.

Whoever may edit a namespace could otherwise lift the rules from his own work. Allowed is who may
`grant` `exemptions.guardrails.gpu-cluster`, a resource that exists for this question only:

    rules: [{apiGroups: [guardrails.gpu-cluster], resources: [exemptions], verbs: [grant]}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..rules.cel import text
from ..rules.exemptions import GRANT, PREFIX
from .objects import bound_policy, resource_rule

OPT_OUT: Final = "gpu-cluster/guardrails"
"""A namespace with this label and the value `exempt` is left alone."""

NAME: Final = "gpu-rules-grants"
_NEW = 'request.operation == "CREATE"'
_ALLOWED = (
    'authorizer.group("guardrails.gpu-cluster").resource("exemptions").check("grant").allowed()'
)


def _label(owner: str) -> str:
    return f'{owner}.metadata.?labels[?{text(OPT_OUT)}].orValue("")'


def _annotations(owner: str) -> str:
    return f"{owner}.metadata.?annotations.orValue({{}})"


_TOUCHED = (
    f'({_label("object")} == "exempt" && ({_NEW} || {_label("oldObject")} != "exempt")) || '
    f"{_annotations('object')}.exists(k, (k.startsWith({text(GRANT)}) || "
    f"k.startsWith({text(PREFIX)})) && ({_NEW} || "
    f"{_annotations('oldObject')}[?k] != {_annotations('object')}[?k]))"
)


def manifests(
    labels: Mapping[str, str], actions: Sequence[str], failure_policy: str
) -> list[dict[str, Any]]:
    """The policy over namespaces, and its binding, which leaves none of them alone."""
    # Labels and annotations can be changed by the subresources, too.
    resources = ("namespaces", "namespaces/finalize", "namespaces/status")
    rule = resource_rule("", ("CREATE", "UPDATE"), *resources, scope="Cluster")
    spec = {
        "failurePolicy": failure_policy,
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "lifts-rules", "expression": _TOUCHED}],
        "validations": [
            {
                "expression": _ALLOWED,
                "message": f"found a label or annotation that lifts GPU rules ({OPT_OUT}, "
                f"{GRANT}, {PREFIX}) set by a user who may not; wanted: a user who may grant "
                "exemptions.guardrails.gpu-cluster; cure: ask an administrator",
                "reason": "Forbidden",
            }
        ],
    }
    return bound_policy(NAME, labels, spec, actions)
