"""Namespace of a component, with the registry's credentials; it is deleted with the stack.

Pulumi's Kubernetes provider uses server-side apply, so it would adopt an existing namespace: it
would label the namespace and later delete it with all its content. A hook therefore rejects a
namespace of somebody else just before the creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pulumi

from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.manifest import Manifest
from gpu_cluster.release import clear
from gpu_cluster.release.clearing import clearing


@dataclass(frozen=True, kw_only=True)
class NamespaceArgs:
    """Arguments of a component's namespace.

    Attributes:
        namespace: Name of the namespace.
        security: Pod Security level that the namespace enforces. Device plugins need
            `privileged`, because they mount paths of the host.
        pull_secret: Name of the Secret with the registry's credentials; None if pods need none.
        credentials: Docker configuration in JSON (a secret). None if this program doesn't create
            the Secret.
    """

    context: str
    namespace: str
    security: str = "privileged"
    pull_secret: str | None = None
    credentials: pulumi.Input[str] | None = None


def own_namespace(
    parent: pulumi.ComponentResource, name: str, args: NamespaceArgs
) -> list[pulumi.Resource]:
    """Declare a namespace and its image pull Secret.

    Args:
        parent: Component that owns the resources.
        args: Properties of the namespace.

    Returns:
        The resources that pods in the namespace depend on.
    """
    space = Manifest(
        f"{name}-namespace",
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": args.namespace,
                "labels": {**LABELS, "pod-security.kubernetes.io/enforce": args.security},
            },
        },
        pulumi.ResourceOptions(
            parent=parent,
            hooks=clearing(
                "namespace", f"{name}-namespace", partial(clear.namespace, args.context)
            ),
        ),
    )
    if args.pull_secret is None or args.credentials is None:
        return [space]
    content = pulumi.Output.secret(args.credentials)
    secret = Manifest(
        f"{name}-pull-secret",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": args.pull_secret, "namespace": args.namespace, "labels": LABELS},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": content},
        },
        pulumi.ResourceOptions(
            parent=parent,
            depends_on=[space],
            additional_secret_outputs=["data", "stringData"],
        ),
    )
    return [space, secret]
