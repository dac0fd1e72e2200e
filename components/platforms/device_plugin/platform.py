"""NVIDIA's device plugin by its chart, with its configurations in a ConfigMap.

Beside the release: the ConfigMap, and a DaemonSet for nodes on which GPUs are left out. The
RuntimeClass where nvidia isn't the default runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from components.charts.images import NFD_DEFINITIONS, nfd_image
from components.host_facts import HostFacts
from components.kubernetes.labels import LABELS
from components.kubernetes.resources import GPU
from components.platforms import findings
from components.platforms.base import (
    RUNTIME_CLASS,
    ExtraObject,
    Json,
    Offer,
    Platform,
    Program,
    RunningPlugin,
    Servers,
    Trait,
)
from components.platforms.device_plugin import device_lists, rules, values
from components.platforms.device_plugin.excluded_gpus import daemon_sets
from components.platforms.device_plugin.offers import described, offers
from components.platforms.requests import DefinitionsRequest, Expected, RuntimeClassRequest
from components.settings.device_plugin import CONFIG_LABEL, DevicePluginSettings, Presence
from components.settings.hosts.runtime import DefaultRuntime
from components.settings.nodes.pool import Pool
from components.settings.plugin_flags import CDI
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, fault


class DevicePlugin(Platform):
    """The release ``nvidia-device-plugin``."""

    settings: DevicePluginSettings

    chart = "nvidia-device-plugin"
    #: NVIDIA/k8s-device-plugin, README "Deployment via helm".
    repository = "https://nvidia.github.io/k8s-device-plugin"
    servers = Servers(
        "app.kubernetes.io/name=nvidia-device-plugin", "nvidia-device-plugin", beside=True
    )
    traits = frozenset({Trait.TAKES_PLUGIN_MEMORY})

    @property
    def version(self) -> str:
        return self.settings.version

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    def values(self) -> Json:
        return values.values(self.settings, self.site, self.runtime_class)

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        file = self.settings.config_named(pool.labels.get(CONFIG_LABEL))
        return offers(file, file.flags.mig_strategy, pool)

    def plugin(self, pool: Pool) -> RunningPlugin | None:
        """With several configurations a node's label decides: nothing is known of it here."""
        if self.settings.configs:
            return None
        file = self.settings.config
        return described(file, file.flags.mig_strategy)

    def images(self) -> Iterator[str]:
        plugin = self.settings
        yield f"{values.IMAGE}:v{plugin.version}"
        if plugin.presence is Presence.NFD:
            yield nfd_image(plugin.version)

    def extra_objects(self) -> tuple[ExtraObject, ...]:
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
        """Without Node Feature Discovery what the chart's default affinity asks for.

        And ``nvidia.com/mps.capable`` where MPS shares the GPUs, which feature discovery sets
        otherwise (nvidia-device-plugin 0.20.0, values.yaml ``affinity``; mps-control-daemon).
        """
        if self.settings.presence is not Presence.LABEL:
            return {}
        file = self.settings.config_named(pool.labels.get(CONFIG_LABEL))
        mps = {"nvidia.com/mps.capable": "true"} if file.sharing.mps else {}
        return {f"{GPU}.present": "true", **mps}

    @property
    def found_by(self) -> tuple[tuple[str, str], ...]:
        """The chart's own terms: which of them a node has is feature discovery's to say."""
        return tuple(values.PRESENT.items())

    @staticmethod
    def defaults(document: Mapping[str, Any]) -> Mapping[str, Any]:
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

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        yield from rules.validate(sections)

    def warnings(self) -> Iterator[Fault]:
        """Advise on devices by CDI, beside a runtime that hands them over otherwise."""
        runtime = self.site.runtime
        strategies = self.settings.config.flags.plugin.device_list_strategy
        by_cdi = [strategy for strategy in strategies if strategy in CDI]
        if by_cdi and not runtime.cdi:
            yield fault(
                ("runtime", "cdi"),
                f"false, with deviceListStrategy {by_cdi[0]}",
                "CDI in the container runtime",
                'write "cdi: true"',
            )
        if by_cdi and runtime.default_runtime is DefaultRuntime.NVIDIA:
            yield fault(
                ("runtime", "defaultRuntime"),
                f"nvidia, with deviceListStrategy {by_cdi[0]}",
                "runc: with CDI the engine itself hands devices to containers",
                'write "defaultRuntime: runc"',
            )

    def validate_cluster(
        self, seen: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        if self.settings.presence is Presence.NFD:
            yield from findings.features_twice(seen, 'write "presence: label" in devicePlugin')


PLATFORM = DevicePlugin
