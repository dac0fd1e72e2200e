"""The program: configuration, a look at what is there, the cluster, the outputs."""

from __future__ import annotations

import sys

from components.inspection.look import Found, Look

try:  # first of all: it works while the rest is imported
    look = Look.start()
except ValueError as error:
    sys.exit(str(error))

import asyncio
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pulumi

from components.nodes.pools import scheduling_document, validated_pools, validation_document
from components.platforms.judge import endpoints
from components.platforms.presence import presence_document
from components.platforms.settings import Platform
from components.settings.cluster import Cluster
from components.settings.inventory import origins
from components.settings.loader import load
from config.problem import ConfigError

KEY_FILE = "GPU_CLUSTER_SSH_PRIVATE_KEY_FILE"
TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
"""kubeadm's bootstrap token (Kubernetes reference, "Bootstrap tokens")."""


def load_cluster(document: dict[str, Any]) -> Cluster:
    try:
        return load(document)
    except ConfigError as error:
        raise pulumi.RunError(f"Pulumi.{pulumi.get_stack()}.yaml: {error}") from None


def private_key(settings: pulumi.Config, cluster: Cluster) -> str:
    """The SSH key: the stack's secret, else the file that the environment names."""
    key = settings.get("sshPrivateKey")
    if not key and (path := os.environ.get(KEY_FILE)):
        try:
            key = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise pulumi.RunError(
                f"{KEY_FILE}: found {path!r}, which can't be read ({error}); wanted: a file with "
                "an SSH private key; cure: name another, or `pulumi config set --secret "
                "gpu-cluster:sshPrivateKey`"
            ) from None
    if not key and cluster.hosts:
        raise pulumi.RunError(
            f"gpu-cluster:sshPrivateKey: found neither this secret nor {KEY_FILE}; wanted: the key "
            f"that logs in to {len(cluster.hosts)} hosts; cure: `pulumi config set --secret "
            "gpu-cluster:sshPrivateKey < ~/.ssh/id_ed25519`"
        )
    return key or ""


def join_token(settings: pulumi.Config, cluster: Cluster) -> str | None:
    """kubeadm's bootstrap token: the stack's secret, where hosts join."""
    token = settings.get("kubeadmToken")
    joining = [host.name for host in cluster.hosts if cluster.joins(host)]
    if joining and not TOKEN.fullmatch(token or ""):
        raise pulumi.RunError(
            f"gpu-cluster:kubeadmToken: found {'no' if not token else 'an ill-formed'} token; "
            f"wanted: abcdef.0123456789abcdef, with which {joining[0]} joins; cure: `kubeadm token "
            "create | pulumi config set --secret gpu-cluster:kubeadmToken`"
        )
    return token


def license_advice(cluster: Cluster) -> str:
    """What to do about the licence of vGPU guests where the stack has no token."""
    operator = cluster.gpu_operator
    if cluster.platform is not Platform.GPU_OPERATOR or operator.vgpu is None:
        return ""
    return (
        f"gpuOperator.vgpu: the stack has no licenseToken, so drivers wait until somebody makes "
        f"the Secret {operator.namespace}/{operator.vgpu.license_secret}; cure: `pulumi config set "
        "--secret gpu-cluster:licenseToken < client_configuration_token.tok`"
    )


def noted(findings: dict[str, str]) -> dict[str, str]:
    """Findings with the time at which they were made: two runs never find the same text."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {name: f"{finding} ({now})" for name, finding in findings.items()}


def main() -> None:
    settings = pulumi.Config("gpu-cluster")
    stack = pulumi.get_stack()
    document = settings.require_object("cluster")
    cluster = load_cluster(document)
    key = private_key(settings, cluster)
    token = join_token(settings, cluster)
    look.ask(
        {
            "cluster": {
                "context": cluster.kubernetes.context,
                "scheduling": [scheduling_document(cluster, pool, stack) for pool in cluster.pools],
                "validation": [
                    validation_document(cluster, pool, stack) for pool in validated_pools(cluster)
                ],
                "presence": presence_document(cluster),
                "endpoints": endpoints(cluster),
            },
            "hosts": {
                "hosts": [host.model_dump(mode="json") for host in cluster.hosts],
                "privateKey": key,
            },
        }
    )
    # The look is under way: what follows costs no time of its own.
    import pulumi_command
    import pulumi_kubernetes as k8s

    from components.cluster import GpuCluster, GpuClusterArgs
    from components.guardrails.context import context_of
    from components.hosts.table import table
    from components.outputs import left_out, next_commands, totals
    from policies.guard import hold

    hold(context_of(cluster))
    # The plugins start while the look ends; nothing but them is declared before its answer.
    providers = [
        k8s.Provider(
            "kubernetes",
            # Empty, the plugin reads KUBECONFIG where it runs. The SDK would put that path into the
            # state, where it holds for one machine only, and read a list of files as one name.
            kubeconfig="",
            context=cluster.kubernetes.context,
            cluster_identifier=cluster.kubernetes.identifier,
        ),
        pulumi_command.Provider("command"),
    ]
    for warning in cluster.warnings():
        pulumi.log.warn(str(warning))
    if not settings.get("licenseToken") and (advice := license_advice(cluster)):
        pulumi.log.warn(advice)

    def build(found: Found) -> GpuCluster:
        if text := table(cluster.hosts, found.hosts, origins(document)):
            pulumi.log.info(f"hosts\n{text}")
        for warning in found.warnings:
            pulumi.log.warn(warning)
        if found.unreachable:
            pulumi.log.warn(f"not all was looked at: {found.unreachable}")
        if found.problems:
            raise pulumi.RunError("\n".join(found.problems))
        return GpuCluster(
            "gpu-cluster",
            GpuClusterArgs(
                cluster=cluster,
                stack=stack,
                private_key=pulumi.Output.secret(key),
                registry_credentials=settings.get_secret("registryCredentials"),
                license_token=settings.get_secret("licenseToken"),
                join_token=token,
                prepare_drift=found.prepare,
                reboot_drift=found.reboot,
                runtime_drift=found.runtime,
                scheduling_drift=noted(found.scheduling),
                validation_drift=noted(found.validation),
                groups=found.groups,
                presence_drift=noted(found.presence).get("platform"),
            ),
            pulumi.ResourceOptions(providers=providers),
        )

    seen = pulumi.Output.from_input(asyncio.to_thread(look.result, cluster))
    built = seen.apply(build)
    nodes = built.apply(lambda each: each.nodes)
    pulumi.export("nodes", nodes)
    pulumi.export("gpus", nodes.apply(lambda found: totals(cluster, found)))
    pulumi.export("unhealthyDevices", left_out(cluster))
    pulumi.export("charts", built.apply(lambda each: each.charts))
    pulumi.export("next", next_commands(cluster))


main()
