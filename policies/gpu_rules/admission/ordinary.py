"""A match condition so that admission policies skip pods that obviously break no rule.

Most pods break no rule, and with the match condition their admission costs nearly nothing. For all
other pods the API server evaluates a policy's variables twice, for the result and for the message,
and copies the object each time (k8s.io/apiserver v0.34.4
pkg/admission/plugin/policy/validating/validator.go Validate). The match condition consists of the
signs that each rule declares (`gpu_rules.rules.signs`): simple CEL expressions that are true for
every pod that can break the rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..rules.signs import CONTAINERS, HAS_GPUS, On, Sign
from ..rules.twin import Twin


def condition(twins: Iterable[Twin]) -> str:
    """Return CEL that is true if a pod may break one of the rules.

    The CEL uses only the variables `object` and `facts`.

    Args:
        twins: The rules that check pods, in their CEL form.

    Returns:
        The CEL expression, or an empty text if a rule has no signs and must check every pod.
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
