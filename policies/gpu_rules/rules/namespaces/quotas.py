"""The ResourceQuotas of a stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..rule import Subject
from ..unknown import at

REQUESTS = "requests."


def quotas_of(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the ResourceQuotas among the objects of a stack."""
    return [subject for subject in subjects if subject.kind == "ResourceQuota"]


def hard_of(quota: Subject) -> object:
    """Return `spec.hard` of a ResourceQuota, which may be missing or unknown."""
    return at(quota.manifest, "spec", "hard")


NAMESPACE: Final = """\
apiVersion: v1
kind: Namespace
metadata:
  name: team-a
  labels: {pod-security.kubernetes.io/enforce: baseline}
"""
"""A namespace of examples that violates no rule about Pod Security."""
QUOTA: Final = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus, namespace: team-a}
spec:
  hard: {requests.nvidia.com/gpu: 4}
"""
"""A quota of this namespace."""
