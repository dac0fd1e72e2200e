"""Parts of a cluster, which different Pulumi programs may declare separately."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """Part of a cluster that one Pulumi program can declare while others declare the rest."""

    HOSTS = "hosts"
    PLATFORM = "platform"
    VALIDATION = "validation"
    GUARDRAILS = "guardrails"


WHOLE = frozenset(Part)
"""All parts: a whole cluster."""
