"""Platform `gpu-operator`: NVIDIA's GPU Operator, installed by its Helm chart.

In addition to the release it creates the license Secret of vGPU guests. The operator creates and
deletes its operands. This program removes the CustomResourceDefinitions and node labels that remain
after the operator's removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.platforms import findings
from gpu_cluster.platforms.base import (
    Engines,
    Exporter,
    ExtraObject,
    Json,
    Monitored,
    NodeOverride,
    Offer,
    OperandOverride,
    Platform,
    PlatformMigLayouts,
    Program,
    RunningPlugin,
    Servers,
    Trait,
)
from gpu_cluster.platforms.device_plugin.offers import described, offers
from gpu_cluster.platforms.gpu_operator import images, node_overrides, rules, values, vgpu_nodes
from gpu_cluster.platforms.gpu_operator.mig_config import layout
from gpu_cluster.platforms.requests import DefinitionsRequest, Expected, NodeKeysRequest
from gpu_cluster.settings.device_plugin import CONFIG_LABEL
from gpu_cluster.settings.gpu_operator import GpuOperatorSettings, OperatorPlugin
from gpu_cluster.settings.hosts.driver import OPERATOR_ONLY, DriverSettings, DriverSource
from gpu_cluster.settings.hosts.runtime import RuntimeSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.plugin_configuration import DevicePluginConfig
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault


class GpuOperatorPlatform(Platform):
    """The Helm release `gpu-operator`."""

    settings: GpuOperatorSettings

    chart = "gpu-operator"
    # NVIDIA's chart repository (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator,
    # "Install NVIDIA GPU Operator").
    repository = "https://helm.ngc.nvidia.com/nvidia"
    # Label and name of the device plugin's DaemonSet (v26.7.0, assets/state-device-plugin).
    servers = Servers("app=nvidia-device-plugin-daemonset", "nvidia-device-plugin-daemonset")
    # Label of MIG manager's pods (gpu-operator v26.7.0, assets/state-mig-manager).
    layouts = PlatformMigLayouts("app=nvidia-mig-manager", layout)
    traits = frozenset({Trait.BRINGS_DRIVER, Trait.HAS_OPERATOR})
    # Label and port of the DCGM exporter (gpu-operator v26.7.0, assets/state-dcgm-exporter).
    secrets = (vgpu_nodes.TOKEN,)

    @property
    def version(self) -> str:
        """Return the version of the chart."""
        return self.settings.version

    @property
    def namespace(self) -> str:
        """Return the namespace of the Helm release."""
        return self.settings.namespace

    @property
    def monitored(self) -> Monitored:
        """Return the data of the platform for the monitoring."""
        return Monitored(exporter=Exporter({"app": "nvidia-dcgm-exporter"}, "gpu-metrics"))

    def values(self) -> Json:
        """Return the Helm values of the release."""
        return values.values(self.settings, self.site)

    @staticmethod
    def placing_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values of the operator's DaemonSets."""
        return values.get("daemonsets") or {}

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return the extended resources that each node of a pool advertises."""
        return offers(self._file(pool), self.settings.mig_strategy, pool)

    def plugin(self, pool: Pool) -> RunningPlugin:
        """Return how the device plugin runs on a pool's nodes.

        The operator sets the MIG strategy in the plugin's environment, which overrides its file.
        """
        return described(self._file(pool), self.settings.mig_strategy)

    @property
    def node_overrides(self) -> tuple[NodeOverride, ...]:
        """Return the labels and annotations by which the operator obeys the node."""
        return node_overrides.overrides(self.settings, self.site.shared.driver, self.site.pools)

    @property
    def operand_overrides(self) -> tuple[OperandOverride, ...]:
        """Return variables and arguments by which edited operands overrule the settings."""
        return node_overrides.operand_overrides(self.version)

    def _file(self, pool: Pool) -> DevicePluginConfig:
        section = self.settings.device_plugin or OperatorPlugin()
        return section.config_named(pool.labels.get(CONFIG_LABEL))

    @property
    def engines(self) -> Engines:
        """Return the operator's requirements for the container engines on nodes."""
        return Engines(
            need_cdi=self.site.shared.runtime.cdi,
            configured=self.settings.toolkit,
            # RuntimeClasses of the operator (v26.7.0, assets/state-container-toolkit).
            runtime_classes=frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy"}),
        )

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        """Return the labels that mark GPU nodes for the operator, if an NFD of others sets them.

        Source: gpu-operator v26.7.0, controllers/state_manager.go, gpuNodeLabels.
        """
        devices = ("pci-10de", "pci-0302_10de", "pci-0300_10de")
        names = () if self.settings.nfd else devices
        return tuple((f"feature.node.kubernetes.io/{name}.present", "true") for name in names)

    def images(self) -> Iterator[str]:
        """Yield the images of the operator and of its enabled operands."""
        yield from images.images(self.settings, self.site.shared.driver)

    def parallel_drivers(self, nodes: int) -> int:
        """Return `gpuOperator.upgrade.parallel`, at most `nodes`; 0 stands for all nodes."""
        upgrade = self.settings.upgrade
        return min(upgrade.parallel or nodes, nodes) if upgrade else 1

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        """Return the license Secret of vGPU guests, if the stack file has the section `vgpu`."""
        vgpu = self.settings.vgpu
        return (vgpu_nodes.license_secret(self.namespace, vgpu),) if vgpu else ()

    def programs(self) -> tuple[Program, ...]:
        """Return the programs that remove the CustomResourceDefinitions and the node labels."""
        names = values.definitions(self.settings.version)
        context = self.site.context
        return (
            Program(
                key="operator-crds",
                name="crds",
                create="note",
                delete="remove",
                request=DefinitionsRequest(context=context, names=tuple(names)),
                objects=tuple(
                    Expected("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name)
                    for name in values.POLICY_DEFINITIONS
                ),
            ),
            Program(
                key="operator-labels",
                name="operator-labels",
                create="note",
                delete="remove",
                request=NodeKeysRequest(
                    context=context,
                    labels=tuple(values.NODE_LABELS),
                    annotations=tuple(values.NODE_ANNOTATIONS),
                ),
            ),
        )

    @staticmethod
    def defaults(document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return section `gpuOperator`, with `toolkit` true if the operator installs the driver."""
        operator, pools = document.get("gpuOperator", {}), document.get("pools")
        drivers = [
            pool.get("driver", document.get("driver"))
            for pool in (pools if isinstance(pools, list) else ())
            if isinstance(pool, Mapping)
        ]
        by_operator = any(
            isinstance(driver, Mapping) and driver.get("source") == DriverSource.OPERATOR
            for driver in drivers
        )
        if by_operator and isinstance(operator, Mapping):
            return {"gpuOperator": {"toolkit": True, **operator}}
        return {}

    @classmethod
    def shared(
        cls, driver: DriverSettings, runtime: RuntimeSettings
    ) -> dict[tuple[str, str], object]:
        """Return the settings that the release gives to all nodes with GPUs."""
        of_driver: dict[tuple[str, str], object] = {
            ("driver", "source"): "operator" if driver.managed_by_operator else "another source"
        }
        if driver.managed_by_operator:
            names = ("version", "kernel_module_type", *OPERATOR_ONLY)
            of_driver |= {("driver", name): getattr(driver, name) for name in names}
        return (
            super().shared(driver, runtime)
            | of_driver
            | {
                ("runtime", "cdi"): runtime.cdi,
                ("runtime", "devices_by_environment"): runtime.devices_by_environment,
            }
        )

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield faults of the stack file that contradict the GPU Operator."""
        yield from rules.validate(sections)

    def endpoints(self) -> dict[str, str]:
        """Return the endpoints that vGPU guests must reach, by description."""
        return vgpu_nodes.endpoints(self.settings.vgpu, self.site)

    def validate_cluster(
        self, surroundings: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield faults if the cluster already runs Node Feature Discovery."""
        if self.settings.nfd:
            yield from findings.features_twice(surroundings, 'write "nfd: false" in gpuOperator')


PLATFORM = GpuOperatorPlatform
