"""Platform `hami`: HAMi's device plugin, scheduler and webhook, installed by HAMi's Helm chart.

In addition to the release it creates a RuntimeClass if nvidia isn't the default runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.platforms import findings
from gpu_cluster.platforms.base import (
    RUNTIME_CLASS,
    Json,
    Monitored,
    Offer,
    Platform,
    Program,
    RunningPlugin,
    Servers,
    Share,
    Trait,
)
from gpu_cluster.platforms.hami import rules, values
from gpu_cluster.platforms.hami.metrics import metrics
from gpu_cluster.platforms.requests import Expected, RuntimeClassRequest
from gpu_cluster.settings.hami import GpuPolicy, HamiSettings
from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.runtime import RuntimeSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY

POLICY = "hami.io/gpu-scheduler-policy"
"""Annotation of a pod that replaces the policy for its GPUs (pkg/util/types.go)."""
SHARE = Share(
    amounts={GPU: 1, HAMI_MEMORY: 2048, HAMI_CORES: 10},
    cure="see the log of HAMi's device plugin on the node; a container whose image has glibc "
    "before 2.17 can't load HAMi's library",
    is_only=True,
    annotations={POLICY: GpuPolicy.SPREAD.value},
)
"""Share that each container of a validation requests, of a GPU of its own if all are free.

HAMi assigns the least used GPU to each next container with the policy `spread`
(pkg/scheduler/policy/gpu_policy.go). The rest of each GPU stays free for other pods.
"""


class HamiPlatform(Platform):
    """The Helm release `hami`."""

    settings: HamiSettings

    chart = values.CHART
    # HAMi's chart repository (README, "Install With Helm").
    repository = "https://project-hami.github.io/HAMi"
    servers = Servers("app.kubernetes.io/component=hami-device-plugin", "hami-device-plugin")
    traits = frozenset({Trait.SHARES_CARDS})
    without_limits = (
        "no limits: a LimitRange adds 0 GPUs to each container that requests none, and HAMi's "
        "webhook "
        "then passes its pod to HAMi's scheduler"
    )

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

    @property
    def monitored(self) -> Monitored:
        """Return the resource and the metrics of HAMi for the monitoring."""
        return Monitored(
            resource=("nvidia_com_gpu", self.settings.device_split_count),
            metrics=metrics(self.installation.servers.daemon_set),
        )

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return the extended resource that each node of a pool advertises.

        Memory and cores are no resources of nodes: HAMi's scheduler counts them.
        """
        gpus = pool.gpus_per_node
        return (Offer(GPU, gpus * self.settings.device_split_count, gpus, share=SHARE),)

    def plugin(self, pool: Pool) -> RunningPlugin:
        """Return how HAMi's plugin, which replaces NVIDIA's, advertises GPUs."""
        return RunningPlugin(
            mig_strategy="none",
            replicas=self.settings.device_split_count,
            mps=False,
            renamed=False,
        )

    def images(self) -> Iterator[str]:
        """Yield the images that the release needs."""
        hami = self.settings
        yield f"{values.IMAGE}:v{hami.version}"
        yield f"{values.CERTIFICATE_JOB}:{values.CERTIFICATE_JOB_TAG}"
        if hami.kube_scheduler_version:
            yield f"{values.KUBE_SCHEDULER}:{hami.kube_scheduler_version}"

    def programs(self) -> tuple[Program, ...]:
        """Return the program that manages the RuntimeClass."""
        if not self.runtime_class:
            return ()
        return (
            Program(
                key="hami-runtime-class",
                name="runtime-class",
                create="own",
                delete="remove",
                request=RuntimeClassRequest(context=self.site.context, name=RUNTIME_CLASS),
                objects=(Expected("node.k8s.io/v1", "RuntimeClass", "", RUNTIME_CLASS),),
            ),
        )

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the label in the node selector of the device plugin."""
        return dict(values.NODE_LABEL)

    @property
    def found_by(self) -> tuple[tuple[str, str], ...]:
        """Return the label in the node selector of the device plugin."""
        return tuple(values.NODE_LABEL.items())

    @staticmethod
    def placing_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values of the device plugin's pods."""
        plugin = values.get("devicePlugin") or {}
        return {**plugin, "nodeSelector": plugin.get("nvidiaNodeSelector")}

    @staticmethod
    def limit(cards: float) -> dict[str, str]:
        """Return an empty mapping, because a LimitRange would change pods without GPUs."""
        return {}

    @classmethod
    def shared(
        cls, driver: DriverSettings, runtime: RuntimeSettings
    ) -> dict[tuple[str, str], object]:
        """Return the settings that the release gives to all nodes with GPUs."""
        opened = {("runtime", "devices_by_environment"): runtime.devices_by_environment}
        return super().shared(driver, runtime) | opened

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield faults of the stack file that contradict HAMi."""
        yield from rules.validate(sections)

    def validate_cluster(
        self, seen: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield faults for drivers and a kube-scheduler that don't go with HAMi or the cluster."""
        yield from rules.scheduler(self.settings, seen)
        yield from rules.drivers(seen, hosts)


PLATFORM = HamiPlatform
