"""NVIDIA's GPU Operator by its chart.

Beside the release: the licence of vGPU guests. The operator makes and removes its operands; what
its chart and its labels leave behind goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.charts.images import operator_images
from components.hosts.facts import HostFacts
from components.nodes.settings.pool import Pool
from components.platforms import findings
from components.platforms.base import Exporter, Json, Offer, Part, Platform, Plugin, Program
from components.platforms.device_plugin.offers import offers
from components.platforms.device_plugin.settings import CONFIG_LABEL
from components.platforms.gpu_operator import guests, layouts, rules, values
from components.platforms.gpu_operator.settings import OperatorPlugin
from components.settings.cluster import Cluster
from components.settings.parts import Parts
from config.problem import Fault


class GpuOperator(Platform):
    """The release ``gpu-operator``."""

    chart = "gpu-operator"
    #: https://docs.nvidia.com/datacenter/cloud-native/gpu-operator, "Install NVIDIA GPU Operator".
    repository = "https://helm.ngc.nvidia.com/nvidia"
    #: gpu-operator v26.7.0, assets/state-device-plugin.
    servers = "app=nvidia-device-plugin-daemonset"
    daemon_set = "nvidia-device-plugin-daemonset"
    #: gpu-operator v26.7.0, assets/state-mig-manager.
    dividers = "app=nvidia-mig-manager"
    brings_driver = True
    #: gpu-operator v26.7.0, assets/state-container-toolkit and its CDI classes.
    runtime_classes = frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy"})
    #: gpu-operator v26.7.0, assets/state-dcgm-exporter.
    exporter = Exporter({"app": "nvidia-dcgm-exporter"}, "gpu-metrics")

    def version(self, cluster: Cluster) -> str:
        return cluster.gpu_operator.version

    def namespace(self, cluster: Cluster) -> str:
        return cluster.gpu_operator.namespace

    def values(self, cluster: Cluster) -> Json:
        return values.values(cluster, cluster.gpu_operator)

    def offers(self, cluster: Cluster, pool: Pool) -> tuple[Offer, ...]:
        return offers(self.plugin(cluster, pool), pool)

    def plugin(self, cluster: Cluster, pool: Pool) -> Plugin:
        """The operator sets the strategy for MIG in the plugin's environment, over its file."""
        section = cluster.gpu_operator.device_plugin or OperatorPlugin()
        file = section.config_named(pool.labels.get(CONFIG_LABEL))
        return Plugin(file, cluster.gpu_operator.mig_strategy)

    def needs_cdi(self, cluster: Cluster) -> bool:
        return cluster.runtime.cdi

    def configures_runtime(self, cluster: Cluster) -> bool:
        return cluster.gpu_operator.toolkit

    def images(self, cluster: Cluster) -> Iterator[str]:
        yield from operator_images(cluster)

    def parts(self, cluster: Cluster) -> tuple[Part, ...]:
        vgpu = cluster.gpu_operator.vgpu
        return (guests.license_secret(self.namespace(cluster), vgpu),) if vgpu else ()

    def programs(self, cluster: Cluster) -> tuple[Program, ...]:
        names = values.definitions(cluster.gpu_operator.version)
        prefixes = {"labels": values.NODE_LABELS, "annotations": values.NODE_ANNOTATIONS}
        return (
            Program(
                key="operator-definitions",
                name="crds",
                create="note",
                delete="remove",
                document={"names": names},
            ),
            Program(
                key="operator-labels",
                name="operator_labels",
                create="note",
                delete="remove",
                document=prefixes,
            ),
        )

    def definitions(self, cluster: Cluster) -> tuple[str, ...]:
        return tuple(values.POLICY_DEFINITIONS)

    def layout(self, pool: Pool) -> str:
        return layouts.layout(pool)

    def defaults(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """`toolkit` is true where the operator also brings the driver."""
        driver, operator = document.get("driver"), document.get("gpuOperator", {})
        if (
            isinstance(driver, Mapping)
            and driver.get("source") == "operator"
            and isinstance(operator, Mapping)
        ):
            return {"gpuOperator": {"toolkit": True, **operator}}
        return {}

    def problems(self, parts: Parts) -> Iterator[Fault]:
        yield from rules.problems(parts)

    def endpoints(self, cluster: Cluster) -> dict[str, str]:
        return guests.endpoints(cluster)

    def judge(
        self, cluster: Cluster, seen: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        if cluster.gpu_operator.nfd:
            yield from findings.features_twice(seen, 'write "nfd: false" in gpuOperator')


PLATFORM = GpuOperator()
