"""From a Pulumi resource to the Kubernetes manifest that it declares."""

from __future__ import annotations

from collections.abc import Mapping

from policies.rules import Context, Violation, evaluate

_PREFIX = "kubernetes:"
_PATCH = "Patch"
# Components and releases: their properties are no manifest, their children come on their own.
_NOT_MANIFESTS = frozenset(
    {"helm.sh/v3", "helm.sh/v4", "helm.sh/v2", "yaml", "yaml/v2", "kustomize"}
)


def judge(resource_type: str, props: Mapping[str, object], context: Context) -> list[Violation]:
    """Judge the properties of a resource; types outside Kubernetes have no violations.

    `resource_type`: the token, such as `kubernetes:apps/v1:Deployment`. `props`: its inputs as
    plain data with Kubernetes' own names, `UNKNOWN` where a value is not known.
    """
    if not resource_type.startswith(_PREFIX):
        return []
    group_version, _, kind = resource_type.removeprefix(_PREFIX).rpartition(":")
    if group_version.removeprefix("kustomize/") in _NOT_MANIFESTS or not group_version:
        return []
    manifest = {
        **props,
        "apiVersion": group_version.removeprefix("core/"),
        "kind": kind.removesuffix(_PATCH),
    }
    return evaluate(manifest, context, partial=kind.endswith(_PATCH))
