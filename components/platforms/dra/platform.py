"""NVIDIA's driver for Dynamic Resource Allocation by its chart, and the claims it offers.

Beside the release: one ResourceClaimTemplate per pool and namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from components.hosts.facts import HostFacts
from components.nodes.pools import gpu_pools
from components.nodes.resources import DRA_DRIVER, GPU
from components.nodes.settings.pool import Pool
from components.platforms import findings
from components.platforms.base import Delivery, Json, Offer, Part, Platform, Program
from components.platforms.dra import values
from components.settings.cluster import Cluster
from components.settings.parts import Parts
from config.problem import Fault, fault


class DraDriver(Platform):
    """The release ``dra-driver-nvidia-gpu``."""

    chart = values.CHART
    repository = "oci://registry.k8s.io/dra-driver-nvidia/charts"
    servers = "dra-driver-nvidia-gpu-component=kubelet-plugin"
    daemon_set = "dra-driver-nvidia-gpu-kubelet-plugin"
    delivery = Delivery.CDI
    measured = None

    def version(self, cluster: Cluster) -> str:
        return cluster.dra.version

    def namespace(self, cluster: Cluster) -> str:
        return cluster.dra.namespace

    def values(self, cluster: Cluster) -> Json:
        return values.values(cluster)

    def offers(self, cluster: Cluster, pool: Pool) -> tuple[Offer, ...]:
        """No extended resource: the driver's name stands for devices of its ResourceSlices."""
        return (Offer(DRA_DRIVER, pool.gpus_per_node, pool.gpus_per_node),)

    def problems(self, parts: Parts) -> Iterator[Fault]:
        """Its compute domains run IMEX themselves, and want that of the host off.

        Source: NVIDIA GPU Operator documentation, "NVIDIA DRA Driver", prerequisites.
        """
        if parts.driver is not None and parts.driver.imex_nodes:
            yield fault(
                ("driver", "imexNodes"),
                "imexNodes with platform dra",
                "no IMEX on hosts: a ComputeDomain starts its own",
                "take imexNodes out",
            )

    def images(self, cluster: Cluster) -> Iterator[str]:
        yield f"{values.IMAGE}:v{cluster.dra.version}"

    def parts(self, cluster: Cluster) -> tuple[Part, ...]:
        dra = cluster.dra
        return tuple(
            Part(
                key=f"{pool.name}-{where}-claim",
                manifest=values.claim_template(
                    f"{pool.name}-gpu", where, 1, dra.selectors.get(pool.name)
                ),
                after=True,
            )
            for pool in gpu_pools(cluster)
            for where in dra.claim_namespaces
        )

    def programs(self, cluster: Cluster) -> tuple[Program, ...]:
        return (
            Program(
                key="dra-definitions",
                name="crds",
                create="note",
                delete="remove",
                document={"names": values.DEFINITIONS},
            ),
        )

    def labels(self, cluster: Cluster, pool: Pool) -> dict[str, str]:
        """What the chart's kubelet plugin selects (dra-driver-nvidia-gpu 0.5.0)."""
        return {f"{GPU}.present": "true"}

    def limit(self, cards: float) -> dict[str, str]:
        """None: a LimitRange counts extended resources, and claims are none."""
        return {}

    def claim(self, name: str, namespace: str, count: int) -> Json | None:
        return values.claim_template(name, namespace, count)

    def judge(
        self, cluster: Cluster, seen: Json, hosts: Mapping[str, HostFacts]
    ) -> Iterator[Fault]:
        yield from findings.claims_served(cluster, seen)


PLATFORM = DraDriver()
