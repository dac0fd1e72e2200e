"""The Pulumi program: read the stack's settings and secrets, declare the cluster."""

import sys
from pathlib import Path

import pulumi

# `pulumi install` makes an environment without this project's packages.
sys.path.insert(0, str(Path(__file__).parent / "policies"))
sys.path.insert(0, str(Path(__file__).parent / "components"))

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.outputs import export
from gpu_cluster.secrets import read_secrets
from gpu_cluster.workarounds import await_calls_in_turn
from gpu_rules.guard import enforce

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
