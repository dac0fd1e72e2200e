"""Rule GPU060: a namespace with GPU workloads should enforce a Pod Security level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...context import Context, Severity
from ..claims import requests
from ..example import POD, Example, edited, manifest_list
from ..gpus import gpus_of
from ..resource_names import of_gpus
from ..rule import Finding, Rule, Subject
from ..twin import SEVERAL_OBJECTS
from ..unknown import UNKNOWN, at, text
from .quotas import NAMESPACE, QUOTA

_ENFORCE = "pod-security.kubernetes.io/enforce"

_LEVELS = frozenset({"baseline", "restricted"})


def _pod_security(
    subjects: Sequence[Subject], context: Context
) -> Iterator[tuple[Subject, Finding]]:
    namespaces = [
        subject
        for subject in subjects
        if subject.kind == "Namespace" and subject.name not in context.trusted_namespaces
    ]
    if not namespaces:
        return
    users: dict[str, dict[str, Subject]] = {}
    for subject in subjects:
        if (
            subject.namespace
            and subject.stack not in users.get(subject.namespace, {})
            and _may_have_gpus(subject, context)
        ):
            users.setdefault(subject.namespace, {})[subject.stack] = subject
    for namespace in namespaces:
        labels = at(namespace.manifest, "metadata", "labels")
        level, of_stacks = at(labels, _ENFORCE), users.get(namespace.name, {})
        stacks = ("", namespace.stack) if namespace.stack else of_stacks
        user = next((of_stacks[stack] for stack in stacks if stack in of_stacks), None)
        if not user or labels is UNKNOWN or level is UNKNOWN or text(level) in _LEVELS:
            continue
        found = "privileged" if level == "privileged" else "no level"
        yield (
            namespace,
            Finding(
                path=f"metadata.labels[{_ENFORCE}]",
                found=f"{found} in the namespace of {user.kind} {user.name}, which requests GPUs",
                wanted="baseline or restricted",
                cure="Set the label: otherwise pods can reach GPUs by host paths and privileges.",
            ),
        )


def _may_have_gpus(subject: Subject, context: Context) -> bool:
    return gpus_of(subject, context).may_have or any(
        of_gpus(request.device_class, context) for request in requests(subject)
    )


RULE = Rule(
    id="GPU060",
    title="A namespace with GPU workloads has a Pod Security level",
    severity=Severity.ADVISORY,
    across=_pod_security,
    why="With the level baseline, the API server itself rejects privileged containers and host "
    "paths for all pods of the namespace. The namespaces of the GPU stack need the level "
    "privileged. Namespaces without GPU workloads in the same manifests are not checked.",
    source="k8s.io/pod-security-admission v0.34.4 policy",
    whole=True,
)

TWIN = SEVERAL_OBJECTS

_POD = edited(POD, ("name: train", "name: train, namespace: team-a"))
_OPEN = edited(NAMESPACE, ("\n  labels: {pod-security.kubernetes.io/enforce: baseline}", ""))
EXAMPLE = Example(
    passing=manifest_list(NAMESPACE, QUOTA, _POD), failing=manifest_list(_OPEN, QUOTA, _POD)
)
