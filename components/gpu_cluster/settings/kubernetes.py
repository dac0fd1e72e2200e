"""Section `kubernetes` of the stack file: the kubeconfig context of the cluster."""

from __future__ import annotations

from pydantic import Field, StrictStr

from gpu_cluster.base.model import Model


class KubernetesSettings(Model):
    """The kubeconfig context and an identifier that distinguishes the cluster from other clusters.

    A change of `clusterIdentifier` replaces the Pulumi Kubernetes provider and with it every
    deployed object; a change of the API server's address or credentials does not. The default is
    the name of the context.
    """

    context: StrictStr = Field(
        min_length=1,
        max_length=253,
        description="the name of a context of the kubeconfig",
        examples=["gpu-cluster-dev"],
    )
    cluster_identifier: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="a text that stays the same as long as the cluster does",
        examples=["gpu-cluster-dev"],
    )

    @property
    def identifier(self) -> str:
        """Return `clusterIdentifier`, or the name of the context if no identifier is set."""
        return self.cluster_identifier or self.context
