"""The check that every object of the platform is there.

Owns nothing. What is missing of a release that somebody changed by hand shows in the preview, and
is made again by the next run.
"""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_command as command

from components.hosts.settings.runtime import DefaultRuntime
from components.nodes.pools import gpu_pools
from components.operation import command_line, document, repair
from components.platforms.device_plugin.excluded_gpus import daemon_sets
from components.platforms.device_plugin.values import CONFIG_MAP, RUNTIME_CLASS
from components.platforms.dra import values as dra_driver
from components.platforms.gpu_manager import values as gpu_manager
from components.platforms.gpu_operator import values as gpu_operator
from components.platforms.settings import Platform
from components.settings.cluster import Cluster

Json = dict[str, Any]


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Json:
    return {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}


def _definitions(names: list[str]) -> list[Json]:
    return [_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", each) for each in names]


def presence_document(cluster: Cluster) -> Json:
    """Input of the program ``presence``: the release, and what this program makes beside it."""
    objects: list[Json] = []
    match cluster.platform:
        case Platform.DEVICE_PLUGIN:
            name, space = "nvidia-device-plugin", cluster.device_plugin.namespace
            objects.append(_object("v1", "ConfigMap", CONFIG_MAP, space))
            objects += [
                _object("apps/v1", "DaemonSet", item["metadata"]["name"], space)
                for item in daemon_sets(cluster, {})
            ]
            if cluster.runtime.default_runtime is not DefaultRuntime.NVIDIA:
                objects.append(_object("node.k8s.io/v1", "RuntimeClass", RUNTIME_CLASS))
        case Platform.GPU_OPERATOR:
            name, space = "gpu-operator", cluster.gpu_operator.namespace
            objects += _definitions(gpu_operator.POLICY_DEFINITIONS)
        case Platform.GPU_MANAGER:
            name, space = "gpu-manager", gpu_manager.NAMESPACE
            objects.append(_object("v1", "Service", gpu_manager.ADMISSION, space))
            objects.append(_object("v1", "ConfigMap", gpu_manager.SCHEDULER, space))
        case Platform.DRA:
            name, space = dra_driver.CHART, cluster.dra.namespace
            objects += [
                _object("resource.k8s.io/v1", "ResourceClaimTemplate", f"{pool.name}-gpu", where)
                for pool in gpu_pools(cluster)
                for where in cluster.dra.claim_namespaces
            ]
    if cluster.driver.managed_by_daemonset:
        objects += [
            _object(
                "apps/v1",
                "DaemonSet",
                f"nvidia-driver-installer-{pool.name}",
                cluster.driver_installer.namespace,
            )
            for pool in gpu_pools(cluster)
        ]
    return {
        "context": cluster.kubernetes.context,
        "platform": str(cluster.platform),
        "release": {"name": name, "namespace": space},
        "objects": objects,
    }


def presence(
    name: str,
    cluster: Cluster,
    finding: str | None,
    revision: pulumi.Output[int],
    opts: pulumi.ResourceOptions,
) -> command.local.Command:
    """The check, after what ``opts`` names.

    Its output holds the digest of what Helm recorded: the state vouches for what is restored.

    Args:
        name: of the resource.
        cluster: the configuration.
        finding: what an inspection found to be missing.
        revision: Helm's number of the release, as the state has it.
        opts: of the resource.
    """
    environment, ignored = repair(finding)
    opts.ignore_changes = ignored
    declared = presence_document(cluster)
    return command.local.Command(
        name,
        create=command_line("presence", "check"),
        update=command_line("presence", "restore"),
        environment=environment,
        stdin=revision.apply(lambda number: document({**declared, "revision": number})),
        opts=opts,
    )
