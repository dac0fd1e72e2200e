"""Rule GPU060: a namespace for workloads should enforce a Pod Security level."""

from __future__ import annotations

from collections.abc import Iterator

from .. import cel
from ..context import Context, Severity
from ..example import Example
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin
from ..unknown import UNKNOWN, at, text

_ENFORCE = "pod-security.kubernetes.io/enforce"

_LEVELS = frozenset({"baseline", "restricted"})


def _pod_security(subject: Subject, context: Context) -> Iterator[Finding]:
    if subject.kind != "Namespace" or subject.name in context.trusted_namespaces:
        return
    labels = at(subject.manifest, "metadata", "labels")
    level = at(labels, _ENFORCE)
    if labels is UNKNOWN or level is UNKNOWN or text(level) in _LEVELS:
        return
    yield Finding(
        path=f"metadata.labels[{_ENFORCE}]",
        found="privileged" if level == "privileged" else "no level",
        wanted="baseline or restricted",
        cure="Set the label: otherwise pods can reach GPUs by host paths and privileges.",
    )


RULE = Rule(
    id="GPU060",
    title="A namespace for workloads has a Pod Security level",
    severity=Severity.ADVISORY,
    check=_pod_security,
    why="With the level baseline, the API server itself rejects privileged containers and host "
    "paths for all pods of the namespace. The namespaces of the GPU stack need the level "
    "privileged.",
    source="k8s.io/pod-security-admission v0.34.4 policy",
    whole=True,
)

_LEVEL = 'object.metadata.?labels[?"pod-security.kubernetes.io/enforce"].orValue("")'

TWIN = Twin(
    cel.unless_empty(
        f"!(object.metadata.name in {cel.parameter('trustedNamespaces')}) && "
        f'!({_LEVEL} in ["baseline", "restricted"])',
        f'"found level " + ({_LEVEL} == "" ? "none" : {_LEVEL})',
    ),
    scopes=frozenset({Scope.NAMESPACES}),
)

EXAMPLE = Example(
    passing="""\
apiVersion: v1
kind: Namespace
metadata:
  name: team-a
  labels: {pod-security.kubernetes.io/enforce: baseline}
""",
    failing="""\
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
""",
)
