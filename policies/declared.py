"""From a Pulumi resource to the manifest that it declares."""

from __future__ import annotations

from collections.abc import Mapping

from .rules import Context, Violation, evaluate
from .rules.hosts.commands import API_VERSION

_KUBERNETES = "kubernetes:"
_REMOTE = "command:remote:"
_PATCH = "Patch"
# Components: their properties are no manifest, their children come on their own.
_NOT_MANIFESTS = frozenset({"helm.sh/v2", "yaml", "yaml/v2", "kustomize"})
PREFIXES = (_KUBERNETES, _REMOTE)


def manifest_of(resource_type: str, props: Mapping[str, object]) -> dict[str, object] | None:
    """The manifest of a resource, `None` for types that no rule knows.

    `resource_type`: the token, such as `kubernetes:apps/v1:Deployment`. `props`: its inputs as
    plain data with Kubernetes' own names, `UNKNOWN` where a value is not known. Helm releases are
    manifests of `helm.sh/v3`, commands on hosts of `command/remote`, each with its inputs.
    """
    if resource_type.startswith(_REMOTE):
        kind = resource_type.removeprefix(_REMOTE)
        return {**props, "apiVersion": API_VERSION, "kind": kind}
    if not resource_type.startswith(_KUBERNETES):
        return None
    group_version, _, kind = resource_type.removeprefix(_KUBERNETES).rpartition(":")
    if group_version.removeprefix("kustomize/") in _NOT_MANIFESTS or not group_version:
        return None
    api_version = group_version.removeprefix("core/")
    return {**props, "apiVersion": api_version, "kind": kind.removesuffix(_PATCH)}


def is_partial(resource_type: str) -> bool:
    """Whether a resource declares a part of an object only."""
    return resource_type.startswith(_KUBERNETES) and resource_type.endswith(_PATCH)


def judge(resource_type: str, props: Mapping[str, object], context: Context) -> list[Violation]:
    """The violations of a resource; types that no rule knows have none. As for `manifest_of`."""
    manifest = manifest_of(resource_type, props)
    if manifest is None:
        return []
    return evaluate(manifest, context, partial=is_partial(resource_type))
