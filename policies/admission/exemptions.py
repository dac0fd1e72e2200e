"""CEL for exemptions: annotations that exempt one object from one rule until a given day.

The CEL variable `grants` holds the annotations of the namespace. They say which rules an object in
the namespace may be exempted from, and until which day.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..rules import RULES, Context
from ..rules.cel import text, texts
from ..rules.context import ExemptionFacts
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
"""Name of the CEL variable with the ids of rules from which the settings exempt the object."""
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
"""CEL for `grants` of objects whose exemptions only an administrator may set, such as a
Namespace: the object's own annotations count as grants.
"""

VARIABLES: Final[Mapping[str, str]] = {
    # Each exemption is written as id=value. An annotation of the object overrides that of its
    # template.
    "exemptions": f'variables.ownAnnotations.filter(k, k.startsWith("{PREFIX}"))'
    f'.map(k, k.substring({len(PREFIX)}) + "=" + variables.ownAnnotations[k]) + '
    f'variables.annotations.filter(k, k.startsWith("{PREFIX}") && '
    "!(k in variables.ownAnnotations))"
    f'.map(k, k.substring({len(PREFIX)}) + "=" + variables.annotations[k])',
    # CEL has no clock. The API server sets the time of a creation, and writes the time of a change
    # into an entry of managedFields. A user can empty that list, or write entries with other times:
    # the server's entry then stands next to them, or there is no new entry (k8s.io/apimachinery
    # v0.34.4 pkg/util/managedfields/internal/fieldmanager.go Update). Without a new entry the
    # current day is not known, and no exemption applies. `dyn` is needed because the times are
    # strings here, but the type check takes them for timestamps.
    "stamps": "dyn(object).metadata.?managedFields.orValue([]).filter(m, m.?time.hasValue() && "
    "!(m in dyn(oldObject).metadata.?managedFields.orValue([]))).map(m, string(m.time))",
    "today": 'request.operation == "CREATE" ? '
    "string(dyn(object).metadata.creationTimestamp).substring(0, 10) : "
    f"size(variables.stamps) == 0 ? {text(_UNKNOWN_DAY)} : "
    "variables.stamps.max().substring(0, 10)",
    "holding": f"variables.exemptions.filter(e, {_HOLDS})",
    SETTLED: "[]",
    "lifted": f"variables.holding.map(e, e.substring(0, 6)) + variables.{SETTLED}",
}


def settled(context: Context, pod: str) -> str:
    """Return CEL for the ids of the rules from which the settings exempt an object.

    Args:
        context: Facts about the cluster, with the exemptions.
        pod: CEL of the pod or the pod template, or an empty text for objects without pods.
    """
    lists = (
        f"({_matches(given, pod)} ? {texts(given.rules - {RULE_ID})} : [])"
        for given in context.exemptions
        if pod or not (given.images or given.host_paths)
    )
    return " + ".join(lists) or "[]"


def _matches(given: ExemptionFacts, pod: str) -> str:
    """Return CEL that is true if an object matches all fields that an exemption sets."""
    parts = [f"variables.today <= {text(given.until.isoformat())}"]
    if given.namespaces:
        parts.append(f"request.namespace.matches({text(pattern(given.namespaces))})")
    for key, value in given.labels.items():
        owners = ("object", pod) if pod not in ("", "object") else ("object",)
        has = (
            f'dyn({owner}).?metadata.?labels[?{text(key)}].orValue("") == {text(value)}'
            for owner in owners
        )
        parts.append(f"({' || '.join(has)})")
    if given.images:
        images = text(pattern(given.images))
        containers = f"(dyn({pod}).spec.containers + dyn({pod}).spec.?initContainers.orValue([]))"
        parts.append(f'{containers}.all(c, c.?image.orValue("").matches({images}))')
    if given.host_paths:
        volumes = f"dyn({pod}).spec.?volumes.orValue([])"
        mounted = f'{volumes}.filter(v, v.?hostPath.?path.orValue("") != "")'
        plain = '("/" + v.hostPath.path.split("/").filter(s, s != "" && s != ".").join("/"))'
        paths = text(pattern(given.host_paths))
        parts.append(f"size({mounted}) > 0 && {mounted}.all(v, {plain}.matches({paths}))")
    return " && ".join(parts)
