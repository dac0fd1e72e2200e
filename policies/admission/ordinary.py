"""A match condition that lets pods pass which obviously break no rule.

Most pods are such pods, and the condition makes them nearly free. The API server evaluates a
policy's variables twice, for the result and for the message, and copies the object each time
(k8s.io/apiserver v0.34.4 pkg/admission/plugin/policy/validating/validator.go Validate). The match
condition avoids that. It tests the signs that each rule declares: simple expressions that are true
for every pod that can break the rule (`policies.rules.signs`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..rules.signs import CONTAINERS, HAS_GPUS, On, Sign
from ..rules.twin import Twin


def condition(twins: Iterable[Twin]) -> str:
    """Return CEL that is true if a pod may break a rule; it uses only `object` and `facts`.

    Args:
        twins: CEL expressions of the rules that apply to pods.

    Returns:
        The expression, or an empty text if a rule has no such test and must see every pod.
    """
    wanted: dict[Sign, None] = {}
    for twin in twins:
        if not twin.signs:
            return ""
        wanted |= dict.fromkeys(twin.signs)

    def any_of(on: On) -> str:
        return " || ".join(sorted(f"({sign.cel})" for sign in wanted if sign.on is on))

    near = any_of(On.CONTAINER)
    if with_gpus := any_of(On.GPU_CONTAINER):
        near += f"{' || ' if near else ''}{HAS_GPUS} && ({with_gpus})"
    on_pod = any_of(On.POD)
    return " || ".join(filter(None, (f"{CONTAINERS}.exists(c, {near})" if near else "", on_pod)))
