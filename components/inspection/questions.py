"""What the inspection asks about a cluster, made from the configuration."""

from __future__ import annotations

from components.charts.source import location, wanted_digest
from components.inspection.cluster import Question
from components.nodes.pools import scheduling_document, validated_pools
from components.platforms.documents import presence_document
from components.platforms.namespaces import own_namespaces
from components.platforms.registry import platform_of
from components.rollout.layout_component import nodes_document
from components.settings.cluster import Cluster
from components.validation.document import validation_document


def question(cluster: Cluster, stack: str) -> Question:
    """Return what the inspection asks about the cluster."""
    joining = {"joining": sorted(host.node for host in cluster.newcomers)}
    layouts = nodes_document(cluster, stack)
    return Question(
        context=cluster.kubernetes.context,
        scheduling=[
            {**scheduling_document(cluster, pool, stack), **joining} for pool in cluster.pools
        ],
        validation=[
            {**validation_document(cluster, pool, stack), **joining}
            for pool in validated_pools(cluster)
        ],
        presence=presence_document(cluster),
        endpoints=sorted(platform_of(cluster).endpoints(cluster).values()),
        own=[space.name for space in own_namespaces(cluster)],
        chart=chart_document(cluster),
        layouts={**layouts, "members": [{**part, **joining} for part in layouts["members"]]},
    )


def chart_place(cluster: Cluster) -> str:
    """Where the platform's chart is fetched from."""
    platform = platform_of(cluster)
    version = platform.version(cluster)
    return location(cluster.charts, platform.chart, platform.repository, version)


def chart_document(cluster: Cluster) -> dict[str, str]:
    """Input of `components.charts.reach`: the chart's place, and what it must be there."""
    platform = platform_of(cluster)
    version = platform.version(cluster)
    return {
        "place": chart_place(cluster),
        "chart": platform.chart,
        "version": version,
        "digest": wanted_digest(cluster.charts, platform.chart, platform.repository, version),
    }
