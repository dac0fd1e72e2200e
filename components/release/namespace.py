"""A namespace that goes with the stack: only where nobody else has it.

The provider applies objects on the server, so it would take a namespace that is there already for
its own: label it, and remove it with all that it holds. A hook refuses that just before the create.
"""

from __future__ import annotations

from functools import partial

import pulumi

from components.manifest import Manifest
from components.release import clear
from components.release.clearing import clearing

LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}


def namespace(
    parent: pulumi.ComponentResource,
    name: str,
    context: str,
    namespace_name: str,
    security: str = "privileged",
) -> Manifest:
    """Declares a namespace.

    Args:
        parent: the component that owns it.
        name: of the resource.
        context: of the kubeconfig.
        namespace_name: of the namespace.
        security: level of Pod Security that it enforces; device plugins mount paths of the host.
    """
    return Manifest(
        name,
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace_name,
                "labels": {**LABELS, "pod-security.kubernetes.io/enforce": security},
            },
        },
        pulumi.ResourceOptions(
            parent=parent, hooks=clearing("namespace", name, partial(clear.namespace, context))
        ),
    )
