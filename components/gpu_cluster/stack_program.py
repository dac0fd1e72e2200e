"""The Pulumi program of a stack file: read settings and secrets, declare the cluster."""

from __future__ import annotations

import pulumi

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.outputs import export
from gpu_cluster.secrets import read_secrets
from gpu_cluster.workarounds import await_calls_in_turn
from gpu_rules.guard import enforce


def declare_stack() -> GpuCluster:
    """Declare the cluster that `Pulumi.<stack>.yaml` describes, and return it.

    The rules judge what the program declares after this call, too.
    """
    settings = pulumi.Config("gpu-cluster")
    document = settings.require_object("cluster")
    secrets = read_secrets(settings)
    built = GpuCluster(
        "gpu-cluster",
        GpuClusterArgs(
            settings=document,
            private_key=secrets.private_key,
            registry_credentials=secrets.registry_credentials,
            join_token=secrets.join_token,
            secrets=secrets.named,
            secret_values=secrets.in_values,
            source=f"Pulumi.{pulumi.get_stack()}.yaml",
        ),
    )
    enforce(built.desired.rules)
    export(built)
    await_calls_in_turn()
    return built
