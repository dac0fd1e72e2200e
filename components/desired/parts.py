"""Parts of a cluster, which different Pulumi programs may declare separately."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import StrEnum

from components.desired.pool import DesiredScheduling
from components.desired.resolve import Desired


class Part(StrEnum):
    """Part of a cluster that one Pulumi program can declare while others declare the rest."""

    HOSTS = "hosts"
    PLATFORM = "platform"
    VALIDATION = "validation"
    GUARDRAILS = "guardrails"


WHOLE = frozenset(Part)
"""All parts: a whole cluster."""


def narrowed(desired: Desired, parts: Collection[Part]) -> Desired:
    """Return the desired state of some parts of a cluster.

    The inspection then reads only these parts, so it reports no differences of parts that another
    Pulumi program declares.

    Args:
        desired: Desired state of the whole cluster.
        parts: The parts to keep.
    """
    if Part.HOSTS not in parts:
        pools = tuple(replace(pool, hosts={}) for pool in desired.validation.pools)
        desired = replace(
            desired, hosts=(), kubeadm=None, validation=replace(desired.validation, pools=pools)
        )
    if Part.PLATFORM not in parts:
        desired = replace(
            desired,
            has_platform=False,
            scheduling=DesiredScheduling(pools=()),
            layouts=replace(desired.layouts, pools=(), selector=""),
            presence=replace(desired.presence, release=None, objects=()),
            chart=None,
            installer=None,
            monitoring=None,
        )
    if Part.VALIDATION not in parts:
        desired = replace(desired, has_validation=False)
    if Part.GUARDRAILS not in parts:
        desired = replace(desired, guardrails=None)
    return desired
