"""Helpers for tests of security floors: test names, and versions just below a floor.

A security floor is the first version that fixes the vulnerabilities in an NVIDIA bulletin.
"""

from __future__ import annotations

from gpu_rules.facts.floors import Floor


def name(entry: Floor) -> str:
    return f"{entry.bulletin}-{entry.part}-{entry.branch}"


def just_below(entry: Floor) -> str:
    """Return a version just below a security floor, such as 580.159.02 for 580.159.03."""
    numbers = [*entry.fixed.split("."), "0"][:3]
    for place in reversed(range(len(numbers))):
        if int(numbers[place]):
            last = f"{int(numbers[place]) - 1:0{len(numbers[place])}}"
            return ".".join([*numbers[:place], last, *("99" for _ in numbers[place + 1 :])])
    raise AssertionError(entry.fixed)
