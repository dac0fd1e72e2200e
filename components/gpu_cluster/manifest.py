"""Kubernetes objects declared from plain manifests.

An object uses the public constructor of `pulumi.CustomResource` with the type token of its kind. A
plain manifest is what the policy rules check, what a platform returns and what `kubectl get -o
yaml` prints. One class also covers kinds without a class in pulumi-kubernetes (PrometheusRule,
NodeFeatureRule).
"""

from __future__ import annotations

from typing import Any

import pulumi

from gpu_cluster.kubernetes.labels import MANAGER, field_manager

Json = dict[str, Any]


def token(api_version: str, kind: str) -> str:
    """Return the Pulumi type token of a Kubernetes kind; the group of `v1` is `core`."""
    group = "core/v1" if api_version == "v1" else api_version
    return f"kubernetes:{group}:{kind}"


class Manifest(pulumi.CustomResource):
    """One Kubernetes object. Its provider comes from the resource options or from its parent.

    The object's field manager is named after the stack. By default the plugin chooses a random
    field manager for each create. If an object is left by a lost state or a killed run, a later
    create would then conflict with the earlier field manager. An object that already has a default
    field manager keeps that manager, because a new name would cause a conflict, too.
    """

    metadata: pulumi.Output[Json]
    spec: pulumi.Output[Json]

    def __init__(self, name: str, manifest: Json, opts: pulumi.ResourceOptions) -> None:
        """Declare the object of a manifest with the stack's field manager."""
        kind = token(manifest["apiVersion"], manifest["kind"])
        metadata = manifest["metadata"]
        annotations = {
            **metadata.get("annotations", {}),
            MANAGER: field_manager(pulumi.get_stack()),
        }
        super().__init__(
            kind,
            name,
            {**manifest, "metadata": {**metadata, "annotations": annotations}},
            pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(ignore_changes=[f'metadata.annotations["{MANAGER}"]'])
            ),
        )
