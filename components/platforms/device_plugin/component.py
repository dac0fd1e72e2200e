"""NVIDIA's device plugin by its chart, with its configurations in a ConfigMap.

Owns its namespace, the ConfigMap, the release, the RuntimeClass where nvidia is not the default
runtime, and a DaemonSet for nodes on which GPUs are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_command as command
import yaml

from components.charts.images import NFD_DEFINITIONS
from components.manifest import Manifest
from components.operation import command_line, document
from components.platforms.device_plugin import values as chart
from components.platforms.device_plugin.excluded_gpus import daemon_sets
from components.platforms.device_plugin.settings import DevicePlugin as Settings
from components.platforms.device_plugin.settings import Presence
from components.platforms.leftovers import giving_way
from components.platforms.pull_secret import pull_secret
from components.platforms.release import definitions, namespace, release
from components.settings.cluster import Cluster

LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}


@dataclass(frozen=True, kw_only=True)
class PlatformArgs:
    """What a platform component needs.

    Attributes:
        cluster: the configuration.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
        license_token: a client configuration token for vGPU guests, a secret; None: none is given.
    """

    cluster: Cluster
    registry_credentials: pulumi.Input[str] | None = None
    license_token: pulumi.Input[str] | None = None


def config_map(plugin: Settings) -> dict[str, Any]:
    """The ConfigMap of every configuration of the plugin."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": chart.CONFIG_MAP,
            "namespace": plugin.namespace,
            "labels": LABELS,
        },
        "data": {
            name: yaml.safe_dump(file, sort_keys=False) for name, file in plugin.files().items()
        },
    }


class DevicePlugin(pulumi.ComponentResource):
    """The release ``nvidia-device-plugin``."""

    TYPE = "gpucluster:index:DevicePlugin"

    version: pulumi.Output[str]
    revision: pulumi.Output[int]

    def __init__(
        self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        cluster, plugin = args.cluster, args.cluster.device_plugin
        space = namespace(self, f"{name}-namespace", plugin.namespace)
        child = pulumi.ResourceOptions(parent=self, depends_on=[space])
        needed: list[pulumi.Resource] = [
            space,
            Manifest(f"{name}-config", config_map(plugin), child),
            *pull_secret(self, name, cluster, args.registry_credentials, space, plugin.namespace),
        ]
        if plugin.presence is Presence.NFD:
            names = list(NFD_DEFINITIONS)
            needed.append(definitions(self, f"{name}-definitions", cluster, names))
        values = chart.values(cluster, plugin)
        if "runtimeClassName" in values:
            needed.append(
                command.local.Command(
                    f"{name}-runtime-class",
                    create=command_line("runtime_class", "own"),
                    delete=command_line("runtime_class", "remove"),
                    stdin=document(
                        {"context": cluster.kubernetes.context, "name": chart.RUNTIME_CLASS}
                    ),
                    opts=pulumi.ResourceOptions(parent=self),
                )
            )
        manifests = daemon_sets(cluster, values)
        declared = [manifest["metadata"]["name"] for manifest in manifests]
        gives_way = giving_way(cluster.kubernetes.context, plugin.namespace, declared, name)
        made = release(
            self,
            f"{name}-release",
            cluster=cluster,
            chart="nvidia-device-plugin",
            version=plugin.version,
            namespace_name=plugin.namespace,
            values=values,
            depends_on=needed,
            gives_way=gives_way,
        )
        for manifest in manifests:
            Manifest(
                f"{name}-{manifest['metadata']['name']}",
                manifest,
                pulumi.ResourceOptions(parent=self, depends_on=needed, hooks=gives_way),
            )
        self.revision = made.revision
        self.version = pulumi.Output.from_input(plugin.version)
        self.register_outputs({"version": self.version})
