"""Which pods break no rule at a glance: most do, and cost next to nothing then.

The API server evaluates variables twice, for the result and for the message, and copies the object
each time (k8s.io/apiserver v0.34.4 pkg/admission/plugin/policy/validating/validator.go Validate). A
match condition that no pod in good order meets saves all of that: it looks for the signs that each
rule names (`policies.rules.signs`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..rules.signs import CONTAINERS, HAS_GPUS, On, Sign
from ..rules.twin import Twin


def condition(twins: Iterable[Twin]) -> str:
    """CEL that is true where a pod may break one of the rules, over `object` and `params` alone.

    Empty where one of them names no sign, and is always judged.
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
