"""NVIDIA's device plugin by its chart, with its configuration in a ConfigMap.

Owns its namespace, the ConfigMap, the release, and the RuntimeClass where nvidia is not the
default runtime.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import yaml

import config

from .charts import device_plugin as chart
from .manifest import Manifest
from .release import namespace, release


@dataclass(frozen=True, kw_only=True)
class PlatformArgs:
    """What a platform component needs."""

    cluster: config.Cluster


class DevicePlugin(pulumi.ComponentResource):
    """The release ``nvidia-device-plugin``."""

    TYPE = "gpucluster:index:DevicePlugin"

    version: pulumi.Output[str]

    def __init__(
        self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        cluster = args.cluster
        plugin = cluster.device_plugin or config.DevicePlugin()
        space = namespace(self, f"{name}-namespace", plugin.namespace)
        child = pulumi.ResourceOptions(parent=self, depends_on=[space])
        settings = Manifest(
            f"{name}-config",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": chart.CONFIG_MAP,
                    "namespace": plugin.namespace,
                    "labels": {"app.kubernetes.io/managed-by": "gpu-cluster"},
                },
                "data": {
                    chart.CONFIG_KEY: yaml.safe_dump(plugin.config.document(), sort_keys=False)
                },
            },
            child,
        )
        needed: list[pulumi.Resource] = [space, settings]
        values = chart.values(cluster, plugin)
        if "runtimeClassName" in values:
            needed.append(
                Manifest(
                    f"{name}-runtime-class",
                    {
                        "apiVersion": "node.k8s.io/v1",
                        "kind": "RuntimeClass",
                        "metadata": {
                            "name": chart.RUNTIME_CLASS,
                            "labels": {"app.kubernetes.io/managed-by": "gpu-cluster"},
                        },
                        "handler": "nvidia",
                    },
                    pulumi.ResourceOptions(parent=self),
                )
            )
        release(
            self,
            f"{name}-release",
            cluster=cluster,
            chart="nvidia-device-plugin",
            version=plugin.version,
            namespace_name=plugin.namespace,
            values=values,
            depends_on=needed,
        )
        self.version = pulumi.Output.from_input(plugin.version)
        self.register_outputs({"version": self.version})
