"""What the inspection asks about a cluster, made from the configuration."""

from __future__ import annotations

from dataclasses import replace

from components.charts.source import location, wanted_digest
from components.desired.resolve import Desired
from components.inspection.cluster import Question
from components.platforms.documents import presence_document
from components.platforms.namespaces import own_namespaces
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster


def question(cluster: Cluster, desired: Desired) -> Question:
    """Return what the inspection asks about the cluster."""
    joining = tuple(sorted(host.node for host in cluster.newcomers))
    layouts, platform = desired.layouts, platform_of(cluster)
    beside = (cluster.validation, cluster.installer, cluster.monitoring)
    return Question(
        context=desired.context,
        scheduling=tuple(replace(pool, joining=joining) for pool in desired.scheduling.pools),
        validation=tuple(replace(pool, joining=joining) for pool in desired.validation.pools),
        presence=presence_document(platform, cluster.installer),
        endpoints=sorted(platform.endpoints().values()),
        own=[space.name for space in own_namespaces(platform, *beside)],
        chart=chart_document(cluster),
        layouts=replace(
            layouts, pools=tuple(replace(pool, joining=joining) for pool in layouts.pools)
        ),
    )


def chart_place(cluster: Cluster) -> str:
    """Where the platform's chart is fetched from."""
    platform = platform_of(cluster)
    version = platform.version
    return location(cluster.charts, platform.chart, platform.repository, version)


def chart_document(cluster: Cluster) -> dict[str, str]:
    """Input of `components.charts.reach`: the chart's place, and what it must be there."""
    platform = platform_of(cluster)
    version = platform.version
    return {
        "place": chart_place(cluster),
        "chart": platform.chart,
        "version": version,
        "digest": wanted_digest(cluster.charts, platform.chart, platform.repository, version),
    }
