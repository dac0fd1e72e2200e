"""Number of copies of a pod in a custom resource, from the replica counts around the pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Final

from . import custom_kinds
from .unknown import number

_COUNTS: Final = (
    *("replicas", "replicaCount", "numReplicas", "numNodes", "instances", "numOfHosts"),
    "parallelism",
)
_AT_LEAST: Final = "minReplicas"


def copies(around: Sequence[Mapping[str, object]], manifest: Mapping[str, object]) -> int:
    """Return how many pods run at the same time, at least; an unknown number counts as 0.

    Args:
        around: The mapping of the pod and the mappings around it, the nearest first.
        manifest: The whole object.
    """
    if custom_kinds.runs_nothing(manifest):
        return 0
    total, nearest = 1, custom_kinds.counts_the_nearest(manifest)
    for inner, value in pairwise([{}, *around]):
        counts = _replica_counts(value)
        total *= prod(counts) * custom_kinds.group_size(value, inner)
        if counts and nearest:
            break
    return total


def _replica_counts(value: Mapping[str, object]) -> list[int]:
    """Return the replica counts among the fields of a mapping; an unknown count is 0."""
    declared = [value[name] for name in _COUNTS if value.get(name) is not None]
    counts = [number(count) or 0 for count in declared if not isinstance(count, Mapping | list)]
    if not counts and (least := number(value.get(_AT_LEAST))) is not None:
        return [least]
    return counts
