"""Rule GPU029: a namespace with GPU workloads must have a quota on GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Final

from ...context import Context, Severity
from ..claims import OF_A_CLASS, requests
from ..example import POD, Example, edited, manifest_list
from ..pod_request import resource_requests
from ..pod_spec import resource_list
from ..resource_names import of_gpus
from ..rule import Declared, Finding, Rule, Subject
from ..twin import SEVERAL_OBJECTS
from ..unknown import UNKNOWN, at
from .quotas import NAMESPACE, QUOTA, REQUESTS, hard_of, quotas_of

_EACH: Final = "*"
"""Key of quotas that may count each resource, because their `spec.hard` is not known."""


def _counted_keys(quota: Subject) -> Set[str] | None:
    """Return the resources that a quota counts for all pods, or None if it may count each.

    A quota with scopes counts only the pods in the scopes.
    """
    spec, hard = at(quota.manifest, "spec"), hard_of(quota)
    if UNKNOWN in (spec, hard):
        return None
    if any(at(spec, field) not in (None, [], {}, UNKNOWN) for field in ("scopes", "scopeSelector")):
        return frozenset()
    return {key for key, limit in resource_list(hard).items() if limit.amount is not None}


def _has_quota(subjects: Sequence[Subject], context: Context) -> Iterator[tuple[Subject, Finding]]:
    quotas = quotas_of(subjects)
    if any(not quota.namespace_known for quota in quotas):
        return
    counting: dict[tuple[str, str], set[str]] = {}
    for quota in quotas:
        keys = _counted_keys(quota)
        for key in (_EACH,) if keys is None else keys:
            counting.setdefault((quota.namespace, key), set()).add(quota.stack)

    def is_counted(namespace: str, key: str, stack: str) -> bool:
        stacks = counting.get((namespace, key), set()) | counting.get((namespace, _EACH), set())
        # A quota of any stack may be meant for objects that are part of each.
        return bool(stacks.intersection(("", stack)) if stack else stacks)

    users: dict[str, dict[str, dict[str, Subject]]] = {}
    for user in subjects:
        for key in _counting_keys(user, context):
            of_stacks = users.setdefault(user.namespace, {})
            of_stacks.setdefault(user.stack, {}).setdefault(key, user)
    for namespace in subjects:
        if namespace.kind != "Namespace":
            continue
        of_stacks = users.get(namespace.name, {})
        without: dict[str, Subject] = {}
        for stack in ("", namespace.stack) if namespace.stack else of_stacks:
            for key, user in of_stacks.get(stack, {}).items():
                if not is_counted(namespace.name, key, stack or namespace.stack):
                    without.setdefault(key, user)
        for key, user in without.items():
            yield namespace, _without_quota(user, key)


def _without_quota(user: Subject, key: str) -> Finding:
    return Finding(
        path="metadata.name",
        found=f"no quota for {key.removeprefix(REQUESTS)}, which {user.kind} {user.name} requests",
        wanted=f"a ResourceQuota for {key}, without scopes, in this namespace",
        cure="Add the quota: without it, the namespace may use all GPUs of the cluster.",
    )


def _counting_keys(subject: Subject, context: Context) -> Iterator[str]:
    """Yield the quota keys that count the GPUs of a workload or claim in a known namespace."""
    if not (subject.namespace and subject.is_workload(context)):
        return
    for name in resource_requests(subject.pod, context) if subject.pod else ():
        yield f"{REQUESTS}{name}"
    for request in requests(subject):
        if of_gpus(request.device_class, context):
            yield f"{request.device_class}{OF_A_CLASS}"


RULE = Rule(
    id="GPU029",
    title="A namespace that uses GPUs has a quota for them",
    severity=Severity.ADVISORY,
    mandatory_if=Declared.CLUSTER,
    across=_has_quota,
    why="If a stack declares a namespace and GPU workloads in it, it should also declare how "
    "many GPUs the namespace may use. Devices of claims (DRA) are counted by DeviceClass. "
    "Namespaces that the stack does not declare are not checked, because their quota may be "
    "declared elsewhere.",
    source="kubernetes v1.34.4 pkg/quota/v1/evaluator/core/{pods,resource_claims}.go",
    whole=True,
)

TWIN = SEVERAL_OBJECTS

_POD = edited(POD, ("name: train", "name: train, namespace: team-a"))
EXAMPLE = Example(
    passing=manifest_list(NAMESPACE, QUOTA, _POD), failing=manifest_list(NAMESPACE, _POD)
)
