"""CEL for exemptions: annotations that exempt one object from one rule until a given day.

The CEL variable `grants` holds the annotations of the namespace. They say which rules an object in
the namespace may be exempted from, and until which day.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..rules import RULES
from ..rules.cel import text, texts
from ..rules.exemptions import GRANT, PREFIX, RULE_ID

_FORM = r"^GPU[0-9]{3}=\\s*[0-9]{4}-[0-9]{2}-[0-9]{2}\\s+\\S"
_DAY = f"e.substring({len('GPU000=')}).trim().substring(0, 10)"
_GRANT = f'variables.grants[?({text(GRANT)} + e.substring(0, 6))].orValue("").trim()'
_GRANTED = (
    rf'{_GRANT}.matches("^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\\s+\\S") && '
    f"!format.date().validate({_GRANT}.substring(0, 10)).hasValue() && "
    f"{_GRANT}.substring(0, 10) >= {_DAY}"
)
_UNKNOWN_DAY = "9999-12-32"
"""A date later than any day on which an exemption can end."""
_HOLDS = (
    f'e.matches("{_FORM}") && e.substring(0, 6) in {texts(set(RULES) - {RULE_ID})} && '
    f"!format.date().validate({_DAY}).hasValue() && {_DAY} >= variables.today && "
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
    "lifted": "variables.holding.map(e, e.substring(0, 6))",
}
