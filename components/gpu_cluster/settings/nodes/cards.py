"""Number of GPUs in TKEStack's notation: a fraction of one GPU, or whole GPUs.

gpu-manager counts 100 units of `tencent.com/vcuda-core` per GPU, and GPU memory in units of 256 MiB
(`tencent.com/vcuda-memory`). It accepts a fraction below one GPU or a whole number of GPUs, but no
value such as 1.5 (tkestack/gpu-manager 8cd842e, README;
pkg/services/allocator/nvidia/allocator.go). TKEStack's web console, unlike gpu-manager, requires at
least 0.1.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

from gpu_rules.faults import refuse, show

CORES_PER_CARD = 100


def _validate_card_count(value: Any) -> float:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if number is not None and number >= 0:
        hundredths = round(number * CORES_PER_CARD)
        exact = abs(number * CORES_PER_CARD - hundredths) < 1e-6
        share = 1 <= hundredths <= CORES_PER_CARD
        if exact and (hundredths % CORES_PER_CARD == 0 or share):
            return hundredths / CORES_PER_CARD
    near = (
        f"write {max(round(number), 1)} or {min(max(round(number, 2), 0.01), 1.0):g}"
        if number is not None
        else "write cards such as 0.3 or 2"
    )
    raise refuse(
        show(value), "cards: from 0.01 to 1 with at most two decimals, or a whole number", near
    )


# A number of GPUs: 0.01 to 1 with at most two decimals, or a whole number.
Cards = Annotated[float, BeforeValidator(_validate_card_count)]


def cores(cards: float) -> int:
    """Return the number of `tencent.com/vcuda-core` units for a number of GPUs."""
    return round(cards * CORES_PER_CARD)
