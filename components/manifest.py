"""Kubernetes objects by their plain manifests.

By the public constructor of `pulumi.CustomResource`, under the token of the kind: a plain manifest
is what the rules judge, what a platform answers and what ``kubectl get -o yaml`` shows, and one
class serves kinds that pulumi-kubernetes has no class for (PrometheusRule, NodeFeatureRule).
"""

from __future__ import annotations

from typing import Any

import pulumi

Json = dict[str, Any]


def token(api_version: str, kind: str) -> str:
    """The type token of a kind: ``v1`` is the group ``core``."""
    group = "core/v1" if api_version == "v1" else api_version
    return f"kubernetes:{group}:{kind}"


class Manifest(pulumi.CustomResource):
    """One object. Its provider comes from the options, or from its parent's."""

    metadata: pulumi.Output[Json]
    spec: pulumi.Output[Json]

    def __init__(self, name: str, manifest: Json, opts: pulumi.ResourceOptions) -> None:
        kind = token(manifest["apiVersion"], manifest["kind"])
        super().__init__(kind, name, dict(manifest), opts)
