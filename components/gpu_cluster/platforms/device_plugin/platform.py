"""Platform `device-plugin`: NVIDIA's device plugin, installed by its Helm chart.

In addition to the release it creates a ConfigMap with the plugin's configuration files, DaemonSets
for nodes with unhealthy GPUs, and a RuntimeClass if nvidia isn't the default runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from gpu_cluster.charts.images import NFD_DEFINITIONS, nfd_image
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.platforms import findings
from gpu_cluster.platforms.base import (
    RUNTIME_CLASS,
    ExtraObject,
    Json,
    NodeOverride,
    Offer,
    Platform,
    Program,
    RunningPlugin,
    Servers,
    Trait,
)
from gpu_cluster.platforms.device_plugin import device_lists, rules, values
from gpu_cluster.platforms.device_plugin.excluded_gpus import daemon_sets
from gpu_cluster.platforms.device_plugin.offers import (
    described,
    offers,
    plugin_file_override,
)
from gpu_cluster.platforms.requests import DefinitionsRequest, Expected, RuntimeClassRequest
from gpu_cluster.settings.device_plugin import CONFIG_LABEL, DevicePluginSettings, Presence
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.runtime import RuntimeSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault
from gpu_rules.kube.gpu_resources import GPU


class DevicePluginPlatform(Platform):
    """The Helm release `nvidia-device-plugin`."""

    settings: DevicePluginSettings

    chart = "nvidia-device-plugin"
    # NVIDIA's chart repository (NVIDIA/k8s-device-plugin, README "Deployment via helm").
    repository = "https://nvidia.github.io/k8s-device-plugin"
    servers = Servers(
        "app.kubernetes.io/name=nvidia-device-plugin", "nvidia-device-plugin", beside=True
    )
    traits = frozenset({Trait.TAKES_PLUGIN_MEMORY})

    @property
    def version(self) -> str:
        """Return the version of the chart."""
        return self.settings.version

    @property
    def namespace(self) -> str:
        """Return the namespace of the Helm release."""
        return self.settings.namespace

    def values(self) -> Json:
        """Return the Helm values of the release."""
        return values.values(self.settings, self.site, self.runtime_class)

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return the extended resources that each node of a pool advertises."""
        file = self.settings.config_named(pool.labels.get(CONFIG_LABEL))
        return offers(file, file.flags.mig_strategy, pool)

    def plugin(self, pool: Pool) -> RunningPlugin | None:
        """Return the plugin's configuration; None if a node label may select another file."""
        if self.settings.configs:
            return None
        file = self.settings.config
        return described(file, file.flags.mig_strategy)

    @property
    def node_overrides(self) -> tuple[NodeOverride, ...]:
        """Return the label by which a node takes another file than the pool declares."""
        return (plugin_file_override("devicePlugin"),)

    def images(self) -> Iterator[str]:
        """Yield the images that the release needs."""
        plugin = self.settings
        yield f"{values.IMAGE}:v{plugin.version}"
        if plugin.presence is Presence.NFD:
            yield nfd_image(plugin.version)

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        """Return the objects that the plugin needs in addition to its chart.

        These are a ConfigMap with the configuration files, and DaemonSets that hide unhealthy GPUs.
        """
        plugin = self.settings
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
            ExtraObject(key="config", manifest=config),
            *(
                ExtraObject(key=daemon_set["metadata"]["name"], manifest=daemon_set, after=True)
                for daemon_set in daemon_sets(plugin, self.site, self.values())
            ),
        )

    def programs(self) -> tuple[Program, ...]:
        """Return the programs that manage NFD's CustomResourceDefinitions and the RuntimeClass."""
        result = []
        if self.settings.presence is Presence.NFD:
            result.append(
                Program(
                    key="plugin-crds",
                    name="crds",
                    create="note",
                    delete="remove",
                    request=DefinitionsRequest(
                        context=self.site.context, names=tuple(NFD_DEFINITIONS)
                    ),
                )
            )
        if self.runtime_class:
            result.append(
                Program(
                    key="runtime-class",
                    name="runtime-class",
                    create="own",
                    delete="remove",
                    request=RuntimeClassRequest(context=self.site.context, name=RUNTIME_CLASS),
                    objects=(Expected("node.k8s.io/v1", "RuntimeClass", "", RUNTIME_CLASS),),
                )
            )
        return tuple(result)

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the node labels that the chart's affinity needs without Node Feature Discovery.

        If MPS shares the GPUs, `nvidia.com/mps.capable` is included, which GPU feature discovery
        would otherwise set (nvidia-device-plugin 0.20.0, values.yaml `affinity`;
        mps-control-daemon).
        """
        if self.settings.presence is not Presence.LABEL:
            return {}
        file = self.settings.config_named(pool.labels.get(CONFIG_LABEL))
        mps = {"nvidia.com/mps.capable": "true"} if file.sharing.mps else {}
        return {f"{GPU}.present": "true", **mps}

    @classmethod
    def shared(
        cls, driver: DriverSettings, runtime: RuntimeSettings
    ) -> dict[tuple[str, str], object]:
        """Return the settings that the release gives to all nodes with GPUs."""
        opened = {("runtime", "devices_by_environment"): runtime.devices_by_environment}
        return super().shared(driver, runtime) | opened

    @property
    def found_by(self) -> tuple[tuple[str, str], ...]:
        """Return the labels in the chart's affinity; the plugin's nodes have one of them."""
        return tuple(values.PRESENT.items())

    @property
    def features(self) -> tuple[tuple[str, str], ...]:
        """Return the affinity's labels if an NFD outside this stack must set one; else empty."""
        has_own_affinity = "affinity" in self.settings.extra_values
        return (
            self.found_by
            if self.settings.presence is Presence.EXISTING_NFD and not has_own_affinity
            else ()
        )

    @staticmethod
    def placing_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return all values: the plugin's pods are placed by those at the top."""
        return values

    @staticmethod
    def defaults(document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the section `devicePlugin` with default values that depend on other settings.

        `presence` is `nfd` if `gfd` is true, because GPU feature discovery passes its labels to
        Node Feature Discovery. Devices are passed by mounts if this program configures the hosts'
        toolkit (see `device_lists`).
        """
        plugin = document.get("devicePlugin", {})
        if not isinstance(plugin, Mapping):
            return {}
        if plugin.get("gfd") is True:
            plugin = {"presence": "nfd", **plugin}
        if device_lists.by_mounts(document):
            plugin = device_lists.filled(plugin)
        return {"devicePlugin": plugin} if plugin else {}

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield faults of the stack file that contradict the device plugin."""
        yield from rules.validate(sections)

    @staticmethod
    def warnings(sections: ValidSections) -> Iterator[Fault]:
        """Yield warnings about unused configuration files and about runtimes without CDI."""
        yield from rules.warnings(sections)

    def validate_cluster(
        self, surroundings: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield faults if the cluster already runs another Node Feature Discovery."""
        if self.settings.presence is Presence.NFD:
            yield from findings.features_twice(
                surroundings, 'write "presence: label" in devicePlugin'
            )


PLATFORM = DevicePluginPlatform
