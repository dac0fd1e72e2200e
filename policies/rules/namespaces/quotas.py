"""The ResourceQuotas of a stack."""

from __future__ import annotations

from collections.abc import Sequence

from ..rule import Subject
from ..unknown import at

REQUESTS = "requests."


def quotas_of(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the ResourceQuotas among the objects of a stack."""
    return [subject for subject in subjects if subject.kind == "ResourceQuota"]


def hard_of(quota: Subject) -> object:
    """Return `spec.hard` of a ResourceQuota, which may be missing or unknown."""
    return at(quota.manifest, "spec", "hard")
