"""Which cluster: a context of the kubeconfig."""

from __future__ import annotations

from pydantic import Field, StrictStr

from components.base.model import Model


class KubernetesSettings(Model):
    """`context` of the kubeconfig, and what tells this cluster from another.

    A change of `clusterIdentifier` replaces the Kubernetes provider and with it everything that
    is deployed; a change of address or credentials does not. It is the context by default.
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
        """`clusterIdentifier`, or the context where none is given."""
        return self.cluster_identifier or self.context
