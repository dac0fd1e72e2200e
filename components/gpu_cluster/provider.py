"""The Kubernetes provider, which adopts objects left by a lost state or a killed run.

The provider uses the public constructor of `pulumi.ProviderResource`, because the SDK's own class
has `upsertExistingObjects` only from pulumi-kubernetes 4.29 on. From that version on the plugin
fails to create an object that exists, unless the setting is on; older plugins ignore the setting
(`docs/explanation/decisions`, 0001).
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
    """Declare the Kubernetes provider of a cluster.

    Args:
        name: Name of the provider resource.
        identifier: Identifies the cluster; a change replaces everything deployed in the cluster.
        opts: Options of the provider resource.
        kubeconfig: Contents of a kubeconfig, a secret. If empty, the plugin reads KUBECONFIG when
            it runs. The SDK's own class would store a path of one machine in the state, and treat a
            list of files as one file name.
    """
    return pulumi.ProviderResource(
        "kubernetes",
        name,
        {
            "kubeconfig": kubeconfig,
            "context": context,
            "clusterIdentifier": identifier,
            # Pulumi passes a provider's settings as strings, and encodes other types as JSON.
            "upsertExistingObjects": "true",
        },
        pulumi.ResourceOptions.merge(
            pulumi.ResourceOptions(version=metadata.version("pulumi-kubernetes")), opts
        ),
    )
