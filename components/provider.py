"""The provider of Kubernetes objects, which takes over what a lost state or a killed run left.

By the public constructor of `pulumi.ProviderResource`, as the SDK's own class knows
``upsertExistingObjects`` from pulumi-kubernetes 4.29 on only. The plugin refuses from there on to
create an object that exists; before, it ignores the setting (`docs/decisions`, 0001).
"""

from __future__ import annotations

from importlib import metadata

import pulumi


def kubernetes_provider(
    name: str,
    context: pulumi.Input[str],
    identifier: str,
    opts: pulumi.ResourceOptions | None = None,
    kubeconfig: pulumi.Input[str] = "",
) -> pulumi.ProviderResource:
    """Declare the provider of a cluster.

    Args:
        name: of the resource.
        context: of the kubeconfig.
        identifier: tells the cluster from another; a change replaces all that is deployed.
        opts: of the resource.
        kubeconfig: contents of a kubeconfig, a secret. Empty, the plugin reads KUBECONFIG where it
            runs. As the SDK's class fills it, the state would hold a path of one machine, and a
            list of files as one name.
    """
    return pulumi.ProviderResource(
        "kubernetes",
        name,
        {
            "kubeconfig": kubeconfig,
            "context": context,
            "clusterIdentifier": identifier,
            # A plugin's settings are JSON in text, other than text itself.
            "upsertExistingObjects": "true",
        },
        pulumi.ResourceOptions.merge(
            pulumi.ResourceOptions(version=metadata.version("pulumi-kubernetes")), opts
        ),
    )
