"""The credentials of a private registry, as a Secret in each namespace of ours."""

from __future__ import annotations

import pulumi

from components.manifest import Manifest
from components.settings.registry import Registry


def pull_secret(
    parent: pulumi.ComponentResource,
    name: str,
    registry: Registry,
    credentials: pulumi.Input[str] | None,
    namespace: Manifest,
    namespace_name: str,
) -> list[pulumi.Resource]:
    """The Secret that ``registry.pullSecret`` names; none where the stack has no credentials.

    Args:
        parent: the resource above it; `name`: its name.
        secret: name of the Secret.
        credentials: a Docker configuration in JSON, a secret; None: the Secret is made by others.
        namespace: the namespace's resource, and ``namespace_name`` its name.
    """
    secret = registry.pull_secret
    if secret is None or credentials is None:
        return []
    content = pulumi.Output.secret(credentials)
    return [
        Manifest(
            f"{name}-pull-secret",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": secret,
                    "namespace": namespace_name,
                    "labels": {"app.kubernetes.io/managed-by": "gpu-cluster"},
                },
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": content},
            },
            pulumi.ResourceOptions(
                parent=parent,
                depends_on=[namespace],
                additional_secret_outputs=["data", "stringData"],
            ),
        )
    ]


def pull_secrets(registry: Registry) -> dict[str, list[dict[str, str]]]:
    """``imagePullSecrets`` of a pod; nothing where the registry asks for no credentials."""
    secret = registry.pull_secret
    return {"imagePullSecrets": [{"name": secret}]} if secret else {}
