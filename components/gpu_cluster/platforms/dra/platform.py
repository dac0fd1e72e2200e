"""Platform `dra`: NVIDIA's driver for Dynamic Resource Allocation, installed by its Helm chart.

In addition to the release it creates one ResourceClaimTemplate per pool and namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.host_facts import HostFacts
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.platforms import findings
from gpu_cluster.platforms.base import (
    Delivery,
    ExtraObject,
    Json,
    Monitored,
    Offer,
    Platform,
    Program,
    Servers,
)
from gpu_cluster.platforms.dra import rules, values
from gpu_cluster.platforms.requests import DefinitionsRequest
from gpu_cluster.settings.dra import DraSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault
from gpu_rules.kube.gpu_resources import GPU


class DraPlatform(Platform):
    """The Helm release `dra-driver-nvidia-gpu`."""

    settings: DraSettings

    chart = values.CHART
    repository = "oci://registry.k8s.io/dra-driver-nvidia/charts"
    servers = Servers(
        "dra-driver-nvidia-gpu-component=kubelet-plugin", "dra-driver-nvidia-gpu-kubelet-plugin"
    )
    delivery = Delivery.CDI

    @property
    def version(self) -> str:
        """Return the version of the chart."""
        return self.settings.version

    @property
    def namespace(self) -> str:
        """Return the namespace of the Helm release."""
        return self.settings.namespace

    @property
    def runs_imex(self) -> bool:
        """Return whether the driver starts IMEX daemons for compute domains."""
        return self.settings.compute_domains

    @property
    def monitored(self) -> Monitored:
        """Return the data of the platform for the monitoring."""
        return Monitored(resource=None)

    def values(self) -> Json:
        """Return the Helm values of the release."""
        return values.values(self.settings, self.site)

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """Return each node's GPUs, with the DRA driver's name as the resource's name.

        The driver publishes its devices in ResourceSlices.
        """
        return (Offer(DRA_DRIVER, pool.gpus_per_node, pool.gpus_per_node),)

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Yield faults of the stack file that contradict the DRA driver."""
        yield from rules.validate(sections)

    def images(self) -> Iterator[str]:
        """Yield the image that the release needs."""
        image_values: Mapping[str, str] = self.settings.extra_values.get("image") or {}
        tag = image_values.get("tag") or f"v{self.settings.version}"
        yield f"{image_values.get('repository', values.IMAGE)}:{tag}"

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        """Return a ResourceClaimTemplate for each pool and namespace."""
        dra = self.settings
        return tuple(
            ExtraObject(
                key=f"{pool.name}-{namespace}-claim",
                manifest=values.claim_template(
                    f"{pool.name}-gpu", namespace, 1, dra.selectors.get(pool.name)
                ),
                after=True,
            )
            for pool in self.site.gpu_pools
            for namespace in dra.claim_namespaces
        )

    def programs(self) -> tuple[Program, ...]:
        """Return the program that deletes the chart's CustomResourceDefinitions after removal."""
        return (
            Program(
                key="dra-crds",
                name="crds",
                create="note",
                delete="remove",
                request=DefinitionsRequest(
                    context=self.site.context, names=tuple(values.DEFINITIONS)
                ),
            ),
        )

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the node label in the node selector of the kubelet plugin (chart 0.5.0)."""
        return {f"{GPU}.present": "true"}

    @staticmethod
    def placing_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values of the kubelet plugin's pods."""
        return values.get("kubeletPlugin") or {}

    @staticmethod
    def limit(cards: float) -> dict[str, str]:
        """Return an empty mapping, because a LimitRange can't limit ResourceClaims."""
        return {}

    @staticmethod
    def claim(name: str, namespace: str, count: int) -> Json | None:
        """Return a ResourceClaimTemplate for GPUs of one node."""
        return values.claim_template(name, namespace, count)

    def validate_cluster(
        self, surroundings: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        """Yield faults if the cluster lacks an API that the driver needs."""
        yield from findings.claims_served(self.site.context, surroundings)
        yield from rules.taints_served(self.settings, self.site.context, surroundings.version)


PLATFORM = DraPlatform
