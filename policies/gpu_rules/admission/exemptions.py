"""CEL for exemptions, which exempt an object from a rule until a given day.

The user writes an exemption as an annotation of the object. It applies only if an annotation of the
object's namespace grants exemptions from the rule until that day or later. The CEL variable
`grants` contains the annotations of the namespace. Exemptions in the settings need no grant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..context import ExemptionFacts
from ..rules import RULES, Context
from ..rules.cel import OR_LIST, text, texts
from ..rules.exemptions import GRANT, PREFIX, RULE_ID, YEARS, pattern

_FORM = r"^GPU[0-9]{3}=\\s*[0-9]{4}-[0-9]{2}-[0-9]{2}\\s+\\S"
_DAY = f"e.substring({len('GPU000=')}).trim().substring(0, 10)"
_GRANT = f'variables.grants[?({text(GRANT)} + e.substring(0, 6))].orValue("").trim()'
_GRANTED = (
    rf'{_GRANT}.matches("^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\\s+\\S") && '
    f"!format.date().validate({_GRANT}.substring(0, 10)).hasValue() && "
    f"{_GRANT}.substring(0, 10) >= {_DAY}"
)
SETTLED: Final = "settled"
"""Name of the CEL variable with the ids of the rules from which the settings exempt an object."""
LOST: Final = "lost"
"""Name of the CEL variable with the ids of the rules from which the settings exempted an object
before an update, but not after it.
"""
_UNKNOWN_DAY = "9999-12-32"
"""A date later than any day on which an exemption can end."""
_HOLDS = (
    f'e.matches("{_FORM}") && e.substring(0, 6) in {texts(set(RULES) - {RULE_ID})} && '
    f"!format.date().validate({_DAY}).hasValue() && {_DAY} >= variables.today && "
    f"int({_DAY}.substring(0, 4)) <= int(variables.today.substring(0, 4)) + {YEARS} && "
    f"{_GRANTED}"
)

GRANTED_BY_THEMSELVES: Final = (
    f"variables.ownAnnotations.transformMapEntry(k, v, k.startsWith({text(PREFIX)}), "
    f"{{{text(GRANT)} + k.substring({len(PREFIX)}): v}})"
)
"""CEL for the variable `grants` of a Namespace: its own exemption annotations count as grants.

Only an administrator may set these annotations.
"""

VARIABLES: Final[Mapping[str, str]] = {
    # A list of texts such as "GPU022=2030-12-31 reason". An annotation of the object overrides the
    # annotation of its pod template for the same rule.
    "exemptions": f'variables.ownAnnotations.filter(k, k.startsWith("{PREFIX}"))'
    f'.map(k, k.substring({len(PREFIX)}) + "=" + variables.ownAnnotations[k]) + '
    f'variables.annotations.filter(k, k.startsWith("{PREFIX}") && '
    "!(k in variables.ownAnnotations))"
    f'.map(k, k.substring({len(PREFIX)}) + "=" + variables.annotations[k])',
    # CEL has no clock, so the current day is taken from times that the API server writes: an
    # object's creation time, or on an update the time in a new entry of managedFields. A user can
    # empty managedFields or write entries with other times. The API server then adds its own entry
    # to these, or there is no new entry (k8s.io/apimachinery v0.34.4
    # pkg/util/managedfields/internal/fieldmanager.go Update). The latest time counts, also of the
    # old entries: times are whole seconds, so a second update within a second may leave the API
    # server's entry as it was. Without a new entry the current day is not known, and no exemption
    # applies. An update that only removes fields gets no entry from the API server, so there a
    # user's entry counts; the pods made from it are checked by their creation time. `dyn` is
    # needed because the times are strings here, but the type check takes them for timestamps.
    "before": f"dyn(oldObject).metadata.?managedFields{OR_LIST}.filter(m, m.?time.hasValue())",
    "stamps": f"dyn(object).metadata.?managedFields{OR_LIST}"
    ".filter(m, m.?time.hasValue() && !(m in variables.before)).map(m, string(m.time))",
    "today": 'request.operation != "UPDATE" ? '
    "string(dyn(object).metadata.creationTimestamp).substring(0, 10) : "
    f"size(variables.stamps) == 0 ? {text(_UNKNOWN_DAY)} : "
    "(variables.stamps + variables.before.map(m, string(m.time))).max().substring(0, 10)",
    "holding": f"variables.exemptions.filter(e, {_HOLDS})",
    SETTLED: "[]",
    LOST: f"variables.{SETTLED}",
    "lifted": f"variables.holding.map(e, e.substring(0, 6)) + variables.{SETTLED}",
}


def settled(context: Context, pod: str) -> str:
    """Return CEL for a list of the ids of the rules from which the settings exempt an object.

    Args:
        context: Facts about the cluster, with the exemptions in the settings.
        pod: CEL that returns the pod or the pod template; empty for objects without pods.
    """
    lists = (
        f"(variables.today <= {text(exemption.until.isoformat())} && "
        f"{_matches_cel(exemption, 'object', pod)} ? {_rule_ids_cel(exemption)} : [])"
        for exemption in context.exemptions
        if pod or not (exemption.images or exemption.host_paths)
    )
    return " + ".join(lists) or "[]"


def lost(context: Context, pod: str) -> str:
    """Return CEL for the ids of the rules from which an update removes the settings' exemption.

    Whoever may edit an object chooses its labels and images, so a rule from which they exempt the
    object is checked again when they change. The day does not count for the object before the
    update: after an exemption has ended, such a change is checked, too.

    Args:
        context: Facts about the cluster, with the exemptions in the settings.
        pod: CEL that returns the pod or the pod template; empty for objects without pods.
    """
    before = "oldObject" if pod == "object" else pod
    lists = [
        f"({_matches_cel(exemption, 'oldObject', before)} ? {_rule_ids_cel(exemption)} : [])"
        for exemption in context.exemptions
        if can_change(exemption) and (pod or not (exemption.images or exemption.host_paths))
    ]
    ids = " + ".join(lists)
    if not ids:
        return "[]"
    return f'request.operation != "UPDATE" ? [] : ({ids}).filter(r, !(r in variables.{SETTLED}))'


def can_change(exemption: ExemptionFacts) -> bool:
    """Return whether an update of an object can change what an exemption in the settings reads.

    The namespace and the volumes of a pod never change; those of a pod template are checked anew
    with the template.
    """
    return bool(exemption.labels or exemption.images)


def _rule_ids_cel(exemption: ExemptionFacts) -> str:
    return texts(exemption.rules - {RULE_ID})


def _matches_cel(exemption: ExemptionFacts, owner: str, pod: str) -> str:
    """Return CEL that is true if an object matches all fields of an exemption that are set.

    Args:
        exemption: The exemption in the settings; its last day is not compared.
        owner: CEL that returns the object.
        pod: CEL that returns the pod or the pod template; empty for objects without pods.
    """
    conditions = []
    if exemption.namespaces:
        conditions.append(f"request.namespace.matches({text(pattern(exemption.namespaces))})")
    for key, value in exemption.labels.items():
        owners = (owner, pod) if pod not in ("", owner) else (owner,)
        has = (
            f'dyn({labelled}).?metadata.?labels[?{text(key)}].orValue("") == {text(value)}'
            for labelled in owners
        )
        conditions.append(f"({' || '.join(has)})")
    if exemption.images:
        images = text(pattern(exemption.images))
        containers = (
            f"(dyn({pod}).spec.containers + dyn({pod}).spec.?initContainers{OR_LIST} + "
            f"dyn({pod}).spec.?ephemeralContainers{OR_LIST})"
        )
        conditions.append(f'{containers}.all(c, c.?image.orValue("").matches({images}))')
    if exemption.host_paths:
        volumes = f"dyn({pod}).spec.?volumes{OR_LIST}"
        mounted = f'{volumes}.filter(v, v.?hostPath.?path.orValue("") != "")'
        plain = '("/" + v.hostPath.path.split("/").filter(s, s != "" && s != ".").join("/"))'
        paths = text(pattern(exemption.host_paths))
        conditions.append(f"size({mounted}) > 0 && {mounted}.all(v, {plain}.matches({paths}))")
    return " && ".join(conditions) or "true"
