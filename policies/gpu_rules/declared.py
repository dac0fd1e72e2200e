"""Convert Pulumi resources to the Kubernetes manifests that they declare."""

from __future__ import annotations

from collections.abc import Mapping

from .rules import Context, Violation, evaluate
from .rules.hosts.commands import API_VERSION
from .rules.rule import Subject
from .rules.unread import Unread, unread

_KUBERNETES = "kubernetes:"
_REMOTE = "command:remote:"
_PATCH = "Patch"
# Modules of the Kubernetes provider with Pulumi components. The inputs of such a component are not
# a manifest, and Pulumi registers its child resources separately.
_NOT_MANIFESTS = frozenset({"helm.sh/v2", "yaml", "yaml/v2", "kustomize"})
PREFIXES = (_KUBERNETES, _REMOTE)


def manifest_of(resource_type: str, props: Mapping[str, object]) -> dict[str, object] | None:
    """Return the manifest that a Pulumi resource declares, or None for a type that no rule checks.

    A Helm release becomes a manifest with the apiVersion `helm.sh/v3`. A remote command becomes a
    manifest with the apiVersion `command/remote`. The resource's inputs are the manifest's fields.

    Args:
        resource_type: Type token, such as `kubernetes:apps/v1:Deployment`.
        props: Inputs as plain data with Kubernetes' field names, and `UNKNOWN` for values not known
            yet.
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
    """Return whether a Pulumi resource is a patch, which declares only some fields of an object."""
    return resource_type.startswith(_KUBERNETES) and resource_type.endswith(_PATCH)


def judge(resource_type: str, props: Mapping[str, object], context: Context) -> list[Violation]:
    """Return the rule violations of a Pulumi resource; empty for a type that no rule checks.

    Args:
        resource_type: Type token, such as `kubernetes:apps/v1:Deployment`.
        props: Inputs as plain data with Kubernetes' field names, and `UNKNOWN` for values not known
            yet.
    """
    manifest = manifest_of(resource_type, props)
    if manifest is None:
        return []
    return evaluate(manifest, context, partial=is_partial(resource_type))


def unjudged(resource_type: str, props: Mapping[str, object], context: Context) -> list[Unread]:
    """Return the fields of a resource that may request GPUs but that no rule reads.

    Args:
        resource_type: Type token, such as `kubernetes:argoproj.io/v1alpha1:Workflow`.
        props: Inputs as plain data with Kubernetes' field names, and `UNKNOWN` for values not known
            yet.
    """
    manifest = manifest_of(resource_type, props)
    return list(unread(Subject.all_of(manifest, context.namespace), context)) if manifest else []
