"""Rule GPU041: the workloads of a namespace should not request more GPUs than its quota allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from ...context import Context, Severity
from ...kube.quantity import show
from ..claims import OF_A_CLASS
from ..each import pods_of_stack
from ..example import Example, deployment, manifest_list
from ..pod_request import claim_requests, resource_requests
from ..pod_spec import resource_list
from ..rule import Finding, Rule, Subject
from ..twin import SEVERAL_OBJECTS
from ..unknown import UNKNOWN, at
from .quotas import NAMESPACE, QUOTA, REQUESTS, hard_of, quotas_of


def _within_quota(
    subjects: Sequence[Subject], context: Context
) -> Iterator[tuple[Subject, Finding]]:
    used: dict[tuple[str, str], dict[str, Fraction]] = {}
    for subject, pod, count in pods_of_stack(subjects):
        if subject.namespace:
            requested = {
                REQUESTS + n: amount for n, amount in resource_requests(pod, context).items()
            }
            for name, amount in claim_requests(subject, context).items():
                requested[name + OF_A_CLASS] = amount
            for key, amount in requested.items():
                by_stack = used.setdefault((subject.namespace, key), defaultdict(Fraction))
                by_stack[subject.stack] += amount * count
    # An object outside of charts and kustomizations, such as a quota, is part of each stack.
    most = {each: _most(by_stack) for each, by_stack in used.items()}
    for quota in quotas_of(subjects):
        scopes = at(quota.manifest, "spec", "scopes"), at(quota.manifest, "spec", "scopeSelector")
        if any(scope is UNKNOWN or scope for scope in scopes):
            continue
        for key, limit in resource_list(hard_of(quota), "spec.hard").items():
            by_stack = used.get((quota.namespace, key), {})
            total = by_stack.get("", Fraction(0))
            if quota.stack:
                total += by_stack.get(quota.stack, Fraction(0))
            else:
                total += most.get((quota.namespace, key), Fraction(0))
            if limit.quantity and total > limit.quantity.units:
                yield (
                    quota,
                    Finding(
                        path=limit.path,
                        found=f"{limit.quantity}, but workloads that request {show(total)}",
                        wanted=f"{show(total)} or more, or fewer replicas",
                        cure="Change one of the two: the quota rejects the last pods, which only "
                        "events show.",
                    ),
                )


def _most(by_stack: Mapping[str, Fraction]) -> Fraction:
    """Return the largest amount that the objects of one chart or kustomization request."""
    return max((used for stack, used in by_stack.items() if stack), default=Fraction(0))


RULE = Rule(
    id="GPU041",
    title="The workloads of a namespace fit into its GPU quota",
    severity=Severity.ADVISORY,
    across=_within_quota,
    why="Quotas apply to pods, not to Deployments: the API server accepts the workload, but the "
    "pods beyond the quota are never created. Quotas with scopes are not checked.",
    source="kubernetes v1.34.4 pkg/quota/v1/evaluator/core/pods.go",
)

TWIN = SEVERAL_OBJECTS

EXAMPLE = Example.edited(
    manifest_list(
        NAMESPACE,
        QUOTA,
        deployment("replicas: 4", "strategy: {type: Recreate}", namespace="team-a"),
    ),
    ("replicas: 4", "replicas: 5"),
)
