"""The Pulumi program: read the stack's settings and secrets, declare the cluster."""

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
        secret_values=secrets.in_values,
        source=f"Pulumi.{pulumi.get_stack()}.yaml",
    ),
)
# Apply the rules to the resources that this program declares outside the component, too.
enforce(built.desired.rules)
export(built)
await_calls_in_turn()
