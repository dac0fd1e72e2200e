"""ResourceQuotas among the manifests of a stack."""

from __future__ import annotations

from collections.abc import Sequence

from ..rule import Subject
from ..unknown import at

REQUESTS = "requests."


def quotas_of(subjects: Sequence[Subject]) -> list[Subject]:
    return [subject for subject in subjects if subject.kind == "ResourceQuota"]


def hard_of(quota: Subject) -> object:
    return at(quota.manifest, "spec", "hard")
