"""The program: load what is declared, inspect what is there, declare the cluster, export."""

import pulumi
import pulumi_command

from components.cluster import GpuCluster, GpuClusterArgs
from components.desired.resolve import resolve
from components.inspection.look import inspect
from components.loading.advice import advice
from components.loading.inventory import origins
from components.loading.loader import load
from components.outputs import export
from components.provider import kubernetes_provider
from components.secrets import read_secrets
from components.workarounds import await_calls_in_turn
from policies.faults import ConfigError
from policies.guard import hold

settings, stack = pulumi.Config("gpu-cluster"), pulumi.get_stack()
document = settings.require_object("cluster")
try:
    cluster = load(document)
except ConfigError as error:
    raise pulumi.RunError(f"Pulumi.{stack}.yaml: {error}") from None
desired = resolve(cluster, stack)
secrets = read_secrets(settings, desired.hosts, desired.platform)
for warning in (*advice(cluster.hosts, desired.platform), *secrets.missing):
    pulumi.log.warn(str(warning))

hold(desired.rules)
inspection = inspect(desired, secrets.private_key, origins(document))

providers: list[pulumi.ProviderResource] = [pulumi_command.Provider("command")]
if desired.kubeadm is None:
    declared = cluster.kubernetes
    providers.append(kubernetes_provider("kubernetes", declared.context, declared.identifier))
built = GpuCluster(
    "gpu-cluster",
    GpuClusterArgs(
        cluster=cluster,
        stack=stack,
        private_key=pulumi.Output.secret(secrets.private_key),
        registry_credentials=secrets.registry_credentials,
        join_token=secrets.join_token,
        secrets=secrets.named,
    ),
    inspection.difference,
    pulumi.ResourceOptions(providers=providers),
)
export(cluster, built)
await_calls_in_turn()
