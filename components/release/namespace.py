"""A namespace that goes with the stack, and the registry's credentials in it.

Only where nobody else has it.

The provider applies objects on the server, so it would take a namespace that is there already for
its own: label it, and remove it with all that it holds. A hook refuses that just before the create.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pulumi

from components.kubernetes.labels import LABELS
from components.manifest import Manifest
from components.release import clear
from components.release.clearing import clearing


@dataclass(frozen=True, kw_only=True)
class NamespaceArgs:
    """A namespace of a component.

    Attributes:
        context: context of the kubeconfig.
        namespace: its name.
        security: level of Pod Security that it enforces; device plugins mount paths of the host.
        pull_secret: name of the Secret with the registry's credentials; None: pods need none.
        credentials: a Docker configuration in JSON, a secret; None: others make the Secret.
    """

    context: str
    namespace: str
    security: str = "privileged"
    pull_secret: str | None = None
    credentials: pulumi.Input[str] | None = None


def own_namespace(
    parent: pulumi.ComponentResource, name: str, args: NamespaceArgs
) -> list[pulumi.Resource]:
    """Declare a namespace and the Secret in it.

    Args:
        parent: the component that owns them.
        name: the component's name.
        args: what they are.

    Returns:
        The resources that pods in the namespace need.
    """
    made = Manifest(
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
        return [made]
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
            depends_on=[made],
            additional_secret_outputs=["data", "stringData"],
        ),
    )
    return [made, secret]
