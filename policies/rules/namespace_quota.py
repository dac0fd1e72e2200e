"""Namespaces: that GPUs in them are counted, and how much they may take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from policies.rules.context import Context, Severity
from policies.rules.pod_request import gpu_requests
from policies.rules.pod_spec import resource_list
from policies.rules.quantity import show
from policies.rules.replicas import pods_at_once
from policies.rules.rule import Finding, Rule, Subject
from policies.rules.unknown import UNKNOWN, at, text

_REQUESTS = "requests."
_ENFORCE = "pod-security.kubernetes.io/enforce"
_LEVELS = frozenset({"baseline", "restricted"})


def _quotas(subjects: Sequence[Subject]) -> list[Subject]:
    return [each for each in subjects if each.kind == "ResourceQuota"]


def _hard(quota: Subject) -> object:
    return at(quota.manifest, "spec", "hard")


def _counted(quota: Subject, name: str) -> bool:
    """Whether a quota counts a resource for all pods, or may for all that is known.

    One with scopes counts the pods in them alone.
    """
    spec, hard = at(quota.manifest, "spec"), _hard(quota)
    if UNKNOWN in (spec, hard):
        return True
    if any(at(spec, key) not in (None, [], {}, UNKNOWN) for key in ("scopes", "scopeSelector")):
        return False
    limit = resource_list(hard).get(f"{_REQUESTS}{name}")
    return limit is not None and limit.amount is not None


def _has_quota(subjects: Sequence[Subject], context: Context) -> Iterator[tuple[Subject, Finding]]:
    quotas = _quotas(subjects)
    if any(not quota.namespace_known for quota in quotas):
        return
    users: dict[tuple[str, str], Subject] = {}
    for user in subjects:
        for name in _gpus_asked(user, context):
            users.setdefault((user.namespace, name), user)
    for namespace in subjects:
        for (space, name), user in users.items():
            if namespace.kind != "Namespace" or namespace.name != space:
                continue
            if not any(quota.namespace == space and _counted(quota, name) for quota in quotas):
                yield namespace, _without_quota(user, name)


def _without_quota(user: Subject, name: str) -> Finding:
    return Finding(
        path="metadata.name",
        found=f"no quota on {name} for {user.kind} {user.name}, which asks for it",
        wanted=f"a ResourceQuota on {_REQUESTS}{name}, without scopes, in this namespace",
        cure="Add one: without it the namespace may take every GPU of the cluster.",
    )


def _gpus_asked(subject: Subject, context: Context) -> Iterable[str]:
    """The GPU resources that a workload in a known namespace asks for."""
    if not (subject.namespace and subject.is_workload(context) and subject.pod):
        return ()
    return gpu_requests(subject.pod, context)


def _within_quota(
    subjects: Sequence[Subject], context: Context
) -> Iterator[tuple[Subject, Finding]]:
    used: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for subject in subjects:
        if subject.pod is not None and subject.namespace:
            for name, amount in gpu_requests(subject.pod, context).items():
                used[subject.namespace, name] += amount * pods_at_once(subject)
    for quota in _quotas(subjects):
        scopes = at(quota.manifest, "spec", "scopes"), at(quota.manifest, "spec", "scopeSelector")
        if any(scope is UNKNOWN or scope for scope in scopes):
            continue
        for key, limit in resource_list(_hard(quota), "spec.hard").items():
            total = used[quota.namespace, key.removeprefix(_REQUESTS)]
            if key.startswith(_REQUESTS) and limit.quantity and total > limit.quantity.units:
                yield (
                    quota,
                    Finding(
                        path=limit.path,
                        found=f"{limit.quantity}, beside workloads that ask for {show(total)}",
                        wanted=f"{show(total)} or more, or fewer replicas",
                        cure="The quota refuses the last pods; their workload shows only events.",
                    ),
                )


def _pod_security(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind != "Namespace" or subject.name in context.infrastructure_namespaces:
        return
    labels = at(subject.manifest, "metadata", "labels")
    level = at(labels, _ENFORCE)
    if labels is UNKNOWN or level is UNKNOWN or text(level) in _LEVELS:
        return
    yield Finding(
        path=f"metadata.labels[{_ENFORCE}]",
        found="privileged" if level == "privileged" else "no level",
        wanted="baseline or restricted",
        cure="Below them a pod reaches GPUs by host paths and privileges that nobody counts.",
    )


RULES = (
    Rule(
        id="GPU029",
        title="A namespace that uses GPUs has a quota on them",
        severity=Severity.MANDATORY,
        across=_has_quota,
        why="A stack that declares a namespace and GPU workloads in it declares how many GPUs the "
        "namespace may take. Namespaces that the stack does not declare are not judged: their "
        "quota may be somebody else's.",
        source="kubernetes v1.34.4 pkg/quota/v1/evaluator/core/pods.go",
        whole=True,
    ),
    Rule(
        id="GPU041",
        title="The workloads of a namespace fit into its GPU quota",
        severity=Severity.ADVISORY,
        across=_within_quota,
        why="Quotas act on pods, not on Deployments: the workload is taken, and the pods beyond "
        "the quota are never made. Quotas with scopes are left out.",
        source="kubernetes v1.34.4 pkg/quota/v1/evaluator/core/pods.go",
    ),
    Rule(
        id="GPU060",
        title="A namespace for workloads has a Pod Security level",
        severity=Severity.ADVISORY,
        check=_pod_security,
        why="Level baseline refuses privileged containers and host paths for all pods, by the API "
        "server itself. Namespaces of the GPU stack need the level privileged.",
        source="k8s.io/pod-security-admission v0.34.4 policy",
        whole=True,
    ),
)
