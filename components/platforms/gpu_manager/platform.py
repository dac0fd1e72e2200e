"""Platform `gpu-manager`: TKEStack's gpu-manager, installed by a Helm chart of this project.

In addition to the release it creates the Service of the scheduler extender, and a ConfigMap with
the configuration that the cluster's kube-scheduler needs. The scheduler is a static pod of the
control plane, so the cluster's administrator must mount this configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from components.host_facts import HostFacts
from components.kubernetes.labels import LABELS
from components.platforms import findings
from components.platforms.base import (
    Delivery,
    ExtraObject,
    Json,
    Monitored,
    Offer,
    Platform,
    Servers,
    Trait,
)
from components.platforms.gpu_manager import values
from components.platforms.gpu_manager.metrics import METRICS
from components.settings.gpu_manager import CRI, GpuManagerSettings, release_of
from components.settings.hosts.runtime import Engine, ToolkitSource
from components.settings.nodes.cards import CORE, cores
from components.settings.nodes.pool import Pool
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, Severity, fault

# From this version on kubelet rejects cgroup v1 by default (`failCgroupV1`).
NO_CGROUP_V1 = (1, 35)


def scheduler_data(service: Json) -> dict[str, str]:
    """Return the scheduler's configuration file for the cluster IP of the extender's Service."""
    document = values.scheduler_configuration(str(service.get("clusterIP", "")))
    return {"scheduler.yaml": yaml.safe_dump(document, sort_keys=False)}


class GpuManager(Platform):
    """The Helm release `gpu-manager` in namespace kube-system (reference document 002)."""

    settings: GpuManagerSettings

    chart = "gpu-manager"
    # TKEStack publishes manifests but no Helm chart, so this project contains one.
    repository = "./components/platforms/gpu_manager/chart"
    servers = Servers("name=gpu-manager-ds", "gpu-manager-daemonset")
    delivery = Delivery.PLUGIN
    own_namespace = False
    traits = frozenset({Trait.SHARES_CARDS, Trait.WANTS_CGROUP_V1})
    monitored = Monitored(resource=("tencent_com_vcuda_core", 100), metrics=METRICS)
    version = values.VERSION
    namespace = values.NAMESPACE
    found_by = (("nvidia-device-enable", "enable"),)

    def values(self) -> Json:
        """Return the Helm values of the release."""
        return values.values(self.settings, self.site)

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return the extended resource that each node of a pool advertises."""
        gpus = pool.gpus_per_node
        return (Offer(CORE, cores(gpus), gpus, cores(1)),)

    def images(self) -> Iterator[str]:
        """Yield the images that the release needs."""
        yield self.settings.image
        yield self.settings.admission_image

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        """Return the scheduler extender's Service and the ConfigMap for the scheduler."""
        address = self.settings.extender_address
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": values.ADMISSION,
                "namespace": values.NAMESPACE,
                "labels": LABELS,
                # The release creates the Service's pods after the Service, so Pulumi must not wait
                # for them.
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            "spec": {
                "selector": {"name": values.ADMISSION},
                "ports": [{"name": "extender", "port": values.PORT, "targetPort": "extender"}],
                **({"clusterIP": address} if address else {}),
            },
        }
        scheduler = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": values.SCHEDULER,
                "namespace": values.NAMESPACE,
                "labels": LABELS,
            },
        }
        return (
            ExtraObject(key="extender", manifest=service),
            ExtraObject(
                key="scheduler", manifest=scheduler, source="extender", data=scheduler_data
            ),
        )

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the label that the DaemonSet selects (gpu-manager 8cd842e, gpu-manager.yaml)."""
        return dict(self.found_by)

    @staticmethod
    def limit(cards: float) -> dict[str, str]:
        """Return the maximum of `tencent.com/vcuda-core` for this number of GPUs."""
        return {CORE: str(cores(cards))}

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield faults for an unneeded container toolkit and for an image without CRI support."""
        manager, runtime = sections.section("gpu_manager"), sections.runtime
        if not isinstance(manager, GpuManagerSettings) or runtime is None:
            return
        if runtime.toolkit.source is ToolkitSource.PACKAGE:
            yield fault(
                ("runtime", "toolkit", "source"),
                f"package with platform {sections.platform}",
                "preinstalled: it mounts devices and libraries itself, and its pods run by runc",
                "take runtime.toolkit out",
            )
        release = release_of(manager.image)
        if release is not None and release < CRI and runtime.engine is not Engine.DOCKER:
            yield fault(
                ("gpuManager", "image"),
                f"{manager.image}, with runtime.engine {runtime.engine}",
                f"{'.'.join(map(str, CRI))} or later, which speaks CRI",
                f'write "image: {GpuManagerSettings().image}"',
            )

    def validate_cluster(
        self, seen: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield faults for cgroup v2, Docker, and Kubernetes versions that reject cgroup v1."""
        yield from _engines(self.settings, seen)
        wanted = "cgroup v1: gpu-manager reads /sys/fs/cgroup/memory (tkestack/gpu-manager#184)"
        cure = "boot with systemd.unified_cgroup_hierarchy=0, or declare another platform"
        for name, facts in hosts.items():
            if facts.cgroup == 2 and not facts.simulated:
                yield Fault(f"host {name}", "cgroup v2", wanted, cure)
        if findings.numbers(seen.version) >= NO_CGROUP_V1:
            yield Fault(
                f"cluster {self.site.context}",
                f"Kubernetes {seen.version}, whose kubelet refuses cgroup v1 by default",
                "nodes with cgroup v1 and failCgroupV1: false",
                cure,
                Severity.WARNING,
            )


def _engines(manager: GpuManagerSettings, seen: findings.Surroundings) -> Iterator[Fault]:
    for node, text in seen.engines.items():
        if text.startswith("docker://"):
            yield Fault(
                f"node {node}",
                "the engine docker, whose socket for Kubernetes is another",
                f"{manager.container_runtime_endpoint}",
                "write gpuManager.containerRuntimeEndpoint, such as /var/run/cri-dockerd.sock",
                Severity.WARNING,
            )


PLATFORM = GpuManager
