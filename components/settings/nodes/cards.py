"""Graphics cards in the words of TKEStack: a share of one card, or whole cards.

gpu-manager counts 100 units of `tencent.com/vcuda-core` per card, and memory in units of 256 MiB
(`tencent.com/vcuda-memory`). It takes shares below one card and whole cards, nothing between
(tkestack/gpu-manager 8cd842e, README; pkg/services/allocator/nvidia/allocator.go). TKEStack's web
console alone asks for 0.1 at least.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from policies.faults import refuse, show

CORE = "tencent.com/vcuda-core"
MEMORY = "tencent.com/vcuda-memory"
CORES_PER_CARD = 100


def _cards(value: Any) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is not None and number >= 0:
        hundredths = round(number * CORES_PER_CARD)
        exact = abs(number * CORES_PER_CARD - hundredths) < 1e-6
        share = 1 <= hundredths <= CORES_PER_CARD
        if exact and (hundredths % CORES_PER_CARD == 0 or share):
            return hundredths / CORES_PER_CARD
    near = (
        f"write {round(number)} or {min(max(round(number, 2), 0.01), 1.0):g}"
        if number is not None
        else "write cards such as 0.3 or 2"
    )
    raise refuse(
        show(value), "cards: from 0.01 to 1 with at most two decimals, or a whole number", near
    )


#: 0.01 to 1 with two decimals, or a whole number.
Cards = Annotated[float, BeforeValidator(_cards)]


def cores(cards: float) -> int:
    """Units of `tencent.com/vcuda-core` that stand for cards."""
    return round(cards * CORES_PER_CARD)
