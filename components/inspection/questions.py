"""What the processes of the inspection are asked, made from the configuration."""

from __future__ import annotations

from typing import Any

from components.charts.source import location, wanted_digest
from components.nodes.pools import scheduling_document, validated_pools
from components.platforms.documents import presence_document
from components.platforms.namespaces import own_namespaces
from components.platforms.needed import registries
from components.platforms.registry import platform_of
from components.rollout.layout_component import nodes_document
from components.settings.cluster import Cluster
from components.validation.document import validation_document

Json = dict[str, Any]


def request(cluster: Cluster, stack: str, private_key: str) -> Json:
    """What the processes are asked: ``cluster``, the arguments of
    `components.inspection.cluster.observe`, and ``hosts``."""
    platform = platform_of(cluster)
    beside = (cluster.validation, cluster.installer, cluster.monitoring)
    joining = {"joining": sorted(host.node for host in cluster.newcomers)}
    layouts = nodes_document(cluster, stack)
    return {
        "cluster": {
            "context": cluster.kubernetes.context,
            "scheduling": [
                {**scheduling_document(cluster, pool, stack), **joining} for pool in cluster.pools
            ],
            "validation": [
                {**validation_document(cluster, pool, stack), **joining}
                for pool in validated_pools(cluster)
            ],
            "presence": presence_document(platform, cluster.installer),
            "endpoints": sorted(platform.endpoints().values()),
            "own": [space.name for space in own_namespaces(platform, *beside)],
            "chart": chart_document(cluster),
            "layouts": {
                **layouts,
                "members": [{**part, **joining} for part in layouts["members"]],
            },
        },
        "hosts": {
            "look": {
                "hosts": [host.model_dump(mode="json") for host in cluster.working_hosts],
                "privateKey": private_key,
                "registries": registries(platform, *beside),
            }
        },
    }


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
