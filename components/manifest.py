"""Kubernetes objects by their plain manifests.

By the public constructor of `pulumi.CustomResource`, under the token of the kind: a plain manifest
is what the rules judge, what a platform answers and what ``kubectl get -o yaml`` shows, and one
class serves kinds that pulumi-kubernetes has no class for (PrometheusRule, NodeFeatureRule).
"""

from __future__ import annotations

from typing import Any

import pulumi

Json = dict[str, Any]

MANAGER = "pulumi.com/patchFieldManager"
"""Annotation that names the field manager of a server-side apply (pulumi-kubernetes v4.25.0,
provider/pkg/provider/provider.go, `fieldManagerName`)."""


def token(api_version: str, kind: str) -> str:
    """The type token of a kind: ``v1`` is the group ``core``."""
    group = "core/v1" if api_version == "v1" else api_version
    return f"kubernetes:{group}:{kind}"


class Manifest(pulumi.CustomResource):
    """One object. Its provider comes from the options, or from its parent's.

    Its field manager is the stack's. By default the plugin draws another name for each create, and
    an object that a lost state or a killed run left would be in conflict with its own former one.
    An object that has one by default keeps it: the two would be in conflict, too.
    """

    metadata: pulumi.Output[Json]
    spec: pulumi.Output[Json]

    def __init__(self, name: str, manifest: Json, opts: pulumi.ResourceOptions) -> None:
        kind = token(manifest["apiVersion"], manifest["kind"])
        metadata = manifest["metadata"]
        annotations = {
            **metadata.get("annotations", {}),
            MANAGER: f"gpu-cluster-{pulumi.get_stack()}",
        }
        super().__init__(
            kind,
            name,
            {**manifest, "metadata": {**metadata, "annotations": annotations}},
            pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(ignore_changes=[f'metadata.annotations["{MANAGER}"]'])
            ),
        )
