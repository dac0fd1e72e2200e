"""Build the ValidatingAdmissionPolicies for the GPU rules, and their bindings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..rules import RULES, TWINS, Context, Rule, Severity
from ..rules.cel import IMAGES_CHANGED, LABELS_CHANGED, text, texts
from ..rules.exemptions import RULE_ID
from ..rules.twin import Twin
from . import exemptions, grants, ordinary, parameters, placing
from .grants import OPT_OUT
from .objects import Json, bound_policy
from .shapes import SHAPES, Shape

ACTIONS: Final[Mapping[str, Mapping[Severity, Sequence[str]]]] = {
    "enforce": {Severity.MANDATORY: ("Deny", "Audit"), Severity.ADVISORY: ("Warn", "Audit")},
    "warn": dict.fromkeys((Severity.MANDATORY, Severity.ADVISORY), ("Warn", "Audit")),
    "audit": dict.fromkeys((Severity.MANDATORY, Severity.ADVISORY), ("Audit",)),
}
"""`validationActions` of the policy bindings, by enforcement mode and severity of the rules."""
_LABELS: Final = {"app.kubernetes.io/managed-by": "gpu-cluster"}


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Action of the admission policies on a violation.

    Attributes:
        actions: `validationActions` of the bindings (`Deny`, `Warn`, `Audit`), by rule severity.
        failure_policy: `Fail` or `Ignore`: what happens to a request if a policy cannot be
            evaluated.
        excluded: Names of namespaces in which the GPU rules don't apply.
    """

    actions: Mapping[Severity, Sequence[str]]
    failure_policy: str = "Fail"
    excluded: tuple[str, ...] = ()


def manifests(context: Context, enforcement: Enforcement) -> list[Json]:
    """Return all admission policies for the GPU rules, each followed by its binding.

    Rules that are switched off, and rules that need facts that are not known, are left out. So are
    policies without rules.

    Args:
        enforcement: How the policies act on a violation.
    """
    namespaces = _judged_namespaces(enforcement)
    result: list[Json] = []
    for shape in SHAPES:
        for severity in (Severity.MANDATORY, Severity.ADVISORY):
            twins = _judged_rules(context, shape, severity)
            if twins:
                result += bound_policy(
                    f"gpu-rules-{shape.name}-{severity}",
                    _LABELS,
                    _policy_spec(shape, twins, context, enforcement.failure_policy),
                    _binding_actions(shape, enforcement.actions[severity]),
                    namespaces=namespaces,
                )
    actions, failure_policy = enforcement.actions[Severity.MANDATORY], enforcement.failure_policy
    return [
        *result,
        *placing.manifests(_LABELS, actions, failure_policy, namespaces),
        *grants.manifests(
            _trusted_namespaces(context, enforcement),
            context.daemon_sets,
            _LABELS,
            actions,
            failure_policy,
        ),
    ]


def _trusted_namespaces(context: Context, enforcement: Enforcement) -> set[str]:
    """Return the names of namespaces from which rules are lifted, by the settings or by a policy.

    An exemption for a pattern such as `team-*` is left out: it is for namespaces that don't exist
    yet, too.
    """
    exempt = (name for exemption in context.exemptions for name in exemption.namespaces)
    exact_names = {name for name in exempt if "*" not in name}
    return {*context.trusted_namespaces, *enforcement.excluded, *exact_names}


def _binding_actions(shape: Shape, actions: Sequence[str]) -> list[str]:
    if shape.refused:
        return list(actions)
    return list(dict.fromkeys("Warn" if action == "Deny" else action for action in actions))


def _judged_rules(context: Context, shape: Shape, severity: Severity) -> list[tuple[Rule, Twin]]:
    result, watched = [], _watched_rules(context)
    for rule_id, twin in TWINS.items():
        rule = RULES[rule_id]
        are_facts_known = all(need.known(context) for need in rule.needs)
        acts = rule.severity_in(context) is severity
        if not (are_facts_known and acts and isinstance(twin, Twin)):
            continue
        if shape.judges(twin) or (rule_id in watched and shape.judges_again(twin)):
            result.append((rule, twin))
    return result


def _policy_spec(
    shape: Shape, twins: Sequence[tuple[Rule, Twin]], context: Context, failure_policy: str
) -> Json:
    watched = _watched_rules(context)
    places = {rule.id: _places_cel(shape, twin, rule.id, watched) for rule, twin in twins}
    lists = " + ".join(map(_violation_cel, (rule for rule, _ in twins)))
    variables = {**shape.used([*places.values(), lists]), **places, "violations": lists}
    if exemptions.SETTLED in variables:
        variables[exemptions.SETTLED] = exemptions.settled(context, shape.pod)
    if exemptions.LOST in variables:
        variables[exemptions.LOST] = exemptions.lost(context, shape.pod)
    if "variables.facts" in (variables_text := "\n".join(variables.values())):
        variables = {"facts": parameters.literal(context, variables_text), **variables}
    spec: Json = {
        "failurePolicy": failure_policy if shape.refused else "Ignore",
        "matchConstraints": {"resourceRules": list(shape.rules)},
        "variables": [{"name": name, "expression": cel} for name, cel in variables.items()],
        "auditAnnotations": [
            {"key": "exempted", "valueExpression": 'variables.holding.join("; ")'}
        ],
        # One validation covers all rules. With a validation for each rule, the API server would
        # report only the first broken rule, and its type check would be much slower.
        "validations": [
            {
                "expression": "size(variables.violations) == 0",
                "message": "GPU rules are broken; the message is too long",
                "messageExpression": 'variables.violations.join("; ")',
                "reason": "Forbidden",
            }
        ],
    }
    conditions = {
        "what-rules-read-changed": _change_condition(shape, twins, context),
        "may-break-a-rule": _signs_condition(twins, context) if shape.ordinary else "",
    }
    if any(conditions.values()):
        spec["matchConditions"] = [
            {"name": name, "expression": cel} for name, cel in conditions.items() if cel
        ]
    return spec


def _signs_condition(twins: Sequence[tuple[Rule, Twin]], context: Context) -> str:
    """Return the match condition that is true if a pod may break a rule.

    A match condition can't use the variables of its policy, so the cluster facts that it reads are
    part of the expression.
    """
    sign_condition = ordinary.condition(twin for _, twin in twins)
    if not re.search(r"\bfacts\b", sign_condition):
        return sign_condition
    return f"[{parameters.literal(context, sign_condition)}].exists(facts, {sign_condition})"


def _change_condition(shape: Shape, twins: Sequence[tuple[Rule, Twin]], context: Context) -> str:
    """Return the match condition that is true if an update may change what a rule reads."""
    watched = {
        LABELS_CHANGED: any(exemption.labels for exemption in context.exemptions),
        IMAGES_CHANGED: any(exemption.images for exemption in context.exemptions),
    }
    if shape.updates:
        change_conditions = {twin.on_update for _, twin in twins if twin.on_update}
        change_conditions |= {changed for changed, is_watched in watched.items() if is_watched}
        return " || ".join(sorted(f"({changed})" for changed in change_conditions))
    if not shape.changed:
        return ""
    labels = f" || {LABELS_CHANGED}" if watched[LABELS_CHANGED] else ""
    return f'request.operation != "UPDATE" || {shape.changed}{labels}'


def _watched_rules(context: Context) -> frozenset[str]:
    """Return the ids of the rules from which an update of an object can remove an exemption."""
    return frozenset().union(
        *(exemption.rules for exemption in context.exemptions if exemptions.can_change(exemption))
    )


def _places_cel(shape: Shape, twin: Twin, rule_id: str, watched: frozenset[str]) -> str:
    places = twin.places
    if shape.templates and twin.kinds:
        places = f"object.kind in {texts(twin.kinds)} ? ({places}) : []"
    lost = f"{text(rule_id)} in variables.{exemptions.LOST}" if rule_id in watched else ""
    if shape.updates:
        when = twin.on_update
    elif shape.ephemeral:
        when = "" if twin.ephemeral else "false"
    else:
        when = f'request.operation != "UPDATE" || {shape.changed}' if watched else ""
        when = when if shape.changed else ""
    if not when:
        return f"({lost}) ? ({places}) : []" if shape.updates else places
    return f"({' || '.join(filter(None, (when, lost)))}) ? ({places}) : []"


def _violation_cel(rule: Rule) -> str:
    """Return CEL for a list with the rule's message if an object breaks the rule, else empty."""
    places = f"variables.{rule.id}"
    more = f'(size({places}) > 1 ? " and " + string(size({places}) - 1) + " more" : "")'
    line = f"{text(f'{rule.id} {rule.title}: ')} + {places}[0] + {more}"
    lifted = "" if rule.id == RULE_ID else f' && !("{rule.id}" in variables.lifted)'
    return f"(size({places}) > 0{lifted} ? [{line}] : [])"


def _judged_namespaces(enforcement: Enforcement) -> Json:
    """Return the label selector of the namespaces in which the GPU rules apply."""
    left_alone: list[Json] = [{"key": OPT_OUT, "operator": "NotIn", "values": ["exempt"]}]
    if enforcement.excluded:
        left_alone.append(
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": sorted(enforcement.excluded),
            }
        )
    return {"matchExpressions": left_alone}
