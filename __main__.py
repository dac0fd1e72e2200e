"""The program: a stack's settings and secrets, its cluster, what it reports."""

import pulumi

from components.cluster import GpuCluster, GpuClusterArgs
from components.outputs import export
from components.secrets import read_secrets
from components.workarounds import await_calls_in_turn
from policies.guard import enforce

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
        source=f"Pulumi.{pulumi.get_stack()}.yaml",
    ),
)
enforce(built.desired.rules)  # what else the program declares
export(built)
await_calls_in_turn()
