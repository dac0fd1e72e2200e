"""The program: load what is declared, inspect what is there, declare the cluster, export."""

# ruff: noqa: E402
from components.inspection.processes import Extent, Processes

# First: they read their libraries beside this program.
processes = Processes(*Extent.wanted().parts)

import pulumi
import pulumi_command

from components.calls import await_calls_in_turn
from components.cluster import GpuCluster, GpuClusterArgs
from components.guardrails.context import context_of
from components.inspection.look import inspect
from components.outputs import export
from components.provider import kubernetes_provider
from components.secrets import read_secrets
from components.settings.advice import advice
from components.settings.inventory import origins
from components.settings.loader import load
from config.problem import ConfigError
from policies.guard import hold

settings, stack = pulumi.Config("gpu-cluster"), pulumi.get_stack()
document = settings.require_object("cluster")
try:
    cluster = load(document)
except ConfigError as error:
    raise pulumi.RunError(f"Pulumi.{stack}.yaml: {error}") from None
secrets = read_secrets(settings, cluster)
for warning in (*advice(cluster), *secrets.missing):
    pulumi.log.warn(str(warning))

hold(context_of(cluster))
inspection = inspect(cluster, stack, secrets.private_key, origins(document), processes)

providers: list[pulumi.ProviderResource] = [pulumi_command.Provider("command")]
if cluster.first_host is None:
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
        processes=processes,
    ),
    inspection.drift,
    pulumi.ResourceOptions(providers=providers),
)
export(cluster, built)
await_calls_in_turn()
