"""NVIDIA's device plugin by its chart, with its configurations in a ConfigMap.

Beside the release: the ConfigMap, and a DaemonSet for nodes on which GPUs are left out. The
RuntimeClass where nvidia isn't the default runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from components.charts.images import NFD_DEFINITIONS, nfd_image
from components.hosts.facts import HostFacts
from components.nodes.resources import GPU
from components.nodes.settings.pool import Pool
from components.platforms import findings
from components.platforms.base import (
    LABELS,
    RUNTIME_CLASS,
    Json,
    Offer,
    Part,
    Platform,
    Plugin,
    Program,
)
from components.platforms.device_plugin import advice, device_lists, rules, values
from components.platforms.device_plugin.excluded_gpus import daemon_sets
from components.platforms.device_plugin.offers import offers
from components.platforms.device_plugin.settings import CONFIG_LABEL, Presence
from components.settings.cluster import Cluster
from components.settings.parts import Parts
from config.problem import Fault


class DevicePlugin(Platform):
    """The release ``nvidia-device-plugin``."""

    chart = "nvidia-device-plugin"
    #: NVIDIA/k8s-device-plugin, README "Deployment via helm".
    repository = "https://nvidia.github.io/k8s-device-plugin"
    servers = "app.kubernetes.io/name=nvidia-device-plugin"
    daemon_set = "nvidia-device-plugin"
    own_servers = True
    takes_plugin_memory = True

    def version(self, cluster: Cluster) -> str:
        return cluster.device_plugin.version

    def namespace(self, cluster: Cluster) -> str:
        return cluster.device_plugin.namespace

    def values(self, cluster: Cluster) -> Json:
        return values.values(cluster, cluster.device_plugin)

    def offers(self, cluster: Cluster, pool: Pool) -> tuple[Offer, ...]:
        file = cluster.device_plugin.config_named(pool.labels.get(CONFIG_LABEL))
        return offers(Plugin(file, file.flags.mig_strategy), pool)

    def plugin(self, cluster: Cluster, pool: Pool) -> Plugin | None:
        """With several configurations a node's label decides: nothing is known of it here."""
        if cluster.device_plugin.configs:
            return None
        file = cluster.device_plugin.config
        return Plugin(file, file.flags.mig_strategy)

    def images(self, cluster: Cluster) -> Iterator[str]:
        plugin = cluster.device_plugin
        yield f"{values.IMAGE}:v{plugin.version}"
        if plugin.presence is Presence.NFD:
            yield nfd_image(plugin.version)

    def parts(self, cluster: Cluster) -> tuple[Part, ...]:
        plugin = cluster.device_plugin
        files = {
            name: yaml.safe_dump(file, sort_keys=False) for name, file in plugin.files().items()
        }
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": values.CONFIG_MAP,
                "namespace": plugin.namespace,
                "labels": LABELS,
            },
            "data": files,
        }
        return (
            Part(key="config", manifest=config),
            *(
                Part(key=daemon_set["metadata"]["name"], manifest=daemon_set, after=True)
                for daemon_set in daemon_sets(cluster, self.values(cluster))
            ),
        )

    def programs(self, cluster: Cluster) -> tuple[Program, ...]:
        result = []
        if cluster.device_plugin.presence is Presence.NFD:
            result.append(
                Program(
                    key="plugin-definitions",
                    name="crds",
                    create="note",
                    delete="remove",
                    document={"names": list(NFD_DEFINITIONS)},
                )
            )
        if self.runtime_class(cluster):
            result.append(
                Program(
                    key="runtime-class",
                    name="runtime_class",
                    create="own",
                    delete="remove",
                    document={"name": RUNTIME_CLASS},
                )
            )
        return tuple(result)

    def labels(self, cluster: Cluster, pool: Pool) -> dict[str, str]:
        """Without Node Feature Discovery what the chart's default affinity asks for.

        And ``nvidia.com/mps.capable`` where MPS shares the GPUs, which feature discovery sets
        otherwise (nvidia-device-plugin 0.20.0, values.yaml ``affinity``; mps-control-daemon).
        """
        if cluster.device_plugin.presence is not Presence.LABEL:
            return {}
        file = cluster.device_plugin.config_named(pool.labels.get(CONFIG_LABEL))
        mps = {"nvidia.com/mps.capable": "true"} if file.sharing.mps else {}
        return {f"{GPU}.present": "true", **mps}

    def found_by(self, cluster: Cluster) -> tuple[tuple[str, str], ...]:
        """The chart's own terms: which of them a node has is feature discovery's to say."""
        return tuple(values.PRESENT.items())

    def defaults(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """`presence` is nfd where `gfd` is true: feature discovery hands its labels to NFD. Devices
        come by mounts where hosts' toolkit is ours to configure (`device_lists`).
        """
        plugin = document.get("devicePlugin", {})
        if not isinstance(plugin, Mapping):
            return {}
        if plugin.get("gfd") is True:
            plugin = {"presence": "nfd", **plugin}
        if device_lists.by_mounts(document):
            plugin = device_lists.filled(plugin)
        return {"devicePlugin": plugin} if plugin else {}

    def problems(self, parts: Parts) -> Iterator[Fault]:
        yield from rules.problems(parts)

    def advice(self, cluster: Cluster) -> Iterator[Fault]:
        yield from advice.advice(cluster)

    def judge(
        self, cluster: Cluster, seen: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        if cluster.device_plugin.presence is Presence.NFD:
            yield from findings.features_twice(seen, 'write "presence: label" in devicePlugin')


PLATFORM = DevicePlugin()
