"""NVIDIA's driver for Dynamic Resource Allocation by its chart, and the claims it offers.

Beside the release: one ResourceClaimTemplate per pool and namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.host_facts import HostFacts
from components.kubernetes.resources import DRA_DRIVER, GPU
from components.platforms import findings
from components.platforms.base import (
    Delivery,
    ExtraObject,
    Json,
    Monitored,
    Offer,
    Platform,
    Program,
    Servers,
)
from components.platforms.dra import values
from components.platforms.requests import DefinitionsRequest
from components.settings.dra import DraSettings
from components.settings.nodes.pool import Pool
from components.settings.valid_sections import ValidSections
from policies.faults import Fault, fault


class DraDriver(Platform):
    """The release ``dra-driver-nvidia-gpu``."""

    settings: DraSettings

    chart = values.CHART
    repository = "oci://registry.k8s.io/dra-driver-nvidia/charts"
    servers = Servers(
        "dra-driver-nvidia-gpu-component=kubelet-plugin", "dra-driver-nvidia-gpu-kubelet-plugin"
    )
    delivery = Delivery.CDI
    monitored = Monitored(resource=None)

    @property
    def version(self) -> str:
        return self.settings.version

    @property
    def namespace(self) -> str:
        return self.settings.namespace

    def values(self) -> Json:
        return values.values(self.settings, self.site)

    def offers(self, pool: Pool) -> tuple[Offer, ...]:
        """No extended resource: the driver's name stands for devices of its ResourceSlices."""
        return (Offer(DRA_DRIVER, pool.gpus_per_node, pool.gpus_per_node),)

    @staticmethod
    def validate_settings(sections: ValidSections) -> Iterator[Fault]:
        """Its compute domains run IMEX themselves, and want that of the host off.

        Source: NVIDIA GPU Operator documentation, "NVIDIA DRA Driver", prerequisites.
        """
        if sections.driver is not None and sections.driver.imex_nodes:
            yield fault(
                ("driver", "imexNodes"),
                "imexNodes with platform dra",
                "no IMEX on hosts: a ComputeDomain starts its own",
                "take imexNodes out",
            )

    def images(self) -> Iterator[str]:
        yield f"{values.IMAGE}:v{self.settings.version}"

    def extra_objects(self) -> tuple[ExtraObject, ...]:
        dra = self.settings
        return tuple(
            ExtraObject(
                key=f"{pool.name}-{where}-claim",
                manifest=values.claim_template(
                    f"{pool.name}-gpu", where, 1, dra.selectors.get(pool.name)
                ),
                after=True,
            )
            for pool in self.site.gpu_pools
            for where in dra.claim_namespaces
        )

    def programs(self) -> tuple[Program, ...]:
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
        """What the chart's kubelet plugin selects (dra-driver-nvidia-gpu 0.5.0)."""
        return {f"{GPU}.present": "true"}

    @staticmethod
    def limit(cards: float) -> dict[str, str]:
        """None: a LimitRange counts extended resources, and claims are none."""
        return {}

    @staticmethod
    def claim(name: str, namespace: str, count: int) -> Json | None:
        return values.claim_template(name, namespace, count)

    def validate_cluster(
        self, seen: findings.Surroundings, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        yield from findings.claims_served(self.site.context, seen)


PLATFORM = DraDriver
