"""Grafana dashboard of a stack's GPUs, as JSON. Pure functions.

It stays readable with hundreds of GPUs: panels show nodes, the highest values, or counts, never a
line per GPU. Labels of DCGM's metrics: `Hostname` is the node; `namespace` and `pod` are the pod
that holds the GPU, and are missing if nobody holds it (NVIDIA/dcgm-exporter 4.5.3-4.8.2,
internal/pkg/transformation/kubernetes.go).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_cluster.desired.monitoring import DesiredMonitoring, WatchedPool
from gpu_cluster.platforms.base import Monitored

Json = dict[str, Any]

LONGEST_UID = 40
"""Maximum number of characters of a dashboard's uid in Grafana."""
SCRAPED = '{Hostname=~"${pool:raw}",Hostname=~"$node",namespace=~"$namespace"}'
"""Filter of DCGM's metrics by the dashboard's variables."""
HELD = SCRAPED.removesuffix("}") + ',pod!=""}'
"""The same filter, for GPUs that a pod holds."""
OK, WARN, BAD = "green", "orange", "red"
WIDTH = 24
"""Number of columns of Grafana's grid."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of the dashboard.

    Attributes:
        queries: PromQL expression of each query, with the legend of its lines.
        kind: `timeseries`, `stat` or `table`.
        unit: Unit of the values, as Grafana names it.
        thresholds: Values from which a color counts, in ascending order.
        width: Number of columns.
        height: Number of rows.
    """

    title: str
    queries: Sequence[tuple[str, str]]
    kind: str = "timeseries"
    unit: str = "none"
    thresholds: Sequence[tuple[float, str]] = ()
    width: int = 12
    height: int = 8


def uid(stack: str) -> str:
    """Return the dashboard's uid: another one for each stack, so that no stack replaces another."""
    name = f"gpu-cluster-{stack}"
    if len(name) <= LONGEST_UID and re.fullmatch(r"[a-zA-Z0-9_-]+", name):
        return name
    return f"gpu-cluster-{hashlib.sha256(stack.encode()).hexdigest()[:20]}"


def _count_panel(title: str, expression: str, *thresholds: tuple[float, str]) -> Panel:
    """Return a panel with one number; without any sample it shows 0."""
    query = f"{expression} or vector(0)"
    return Panel(title=title, queries=((query, ""),), kind="stat", thresholds=thresholds, width=4,
                 height=4)  # fmt: skip


def _list_panels(hot: int, monitored: Monitored) -> Iterator[Panel]:
    """Yield the dashboard's panels.

    Args:
        hot: GPU temperature that is too hot.
        monitored: Data of the platform.
    """
    if monitored.resource:
        name, devices_per_gpu = monitored.resource
        nodes = f'resource="{name}",node=~"${{pool:raw}}",node=~"$node"'
        yield _count_panel(
            "GPUs advertised", f"sum(kube_node_status_allocatable{{{nodes}}}) / {devices_per_gpu}"
        )
    yield _count_panel("GPUs held by pods", f"count(DCGM_FI_DEV_GPU_UTIL{HELD})")
    idle = f"max_over_time(DCGM_FI_DEV_GPU_UTIL{HELD}[1h]) == 0"
    yield _count_panel("Held, but idle for an hour", f"count({idle})", (1, WARN))
    yield _count_panel("Too hot", f"count(DCGM_FI_DEV_GPU_TEMP{SCRAPED} > {hot})", (1, BAD))
    xids = f"changes(DCGM_FI_DEV_XID_ERRORS{SCRAPED}[1h]) > 0"
    yield _count_panel("With an XID in the last hour", f"count({xids})", (1, BAD))
    ecc = f"increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{SCRAPED}[1d]) > 0"
    yield _count_panel("With ECC errors in the last day", f"count({ecc})", (1, BAD))
    node = "{{Hostname}}"
    yield Panel(
        title="Utilization by node",
        queries=((f"avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL{SCRAPED})", node),),
        unit="percent",
    )
    used, free = (
        f"sum by (Hostname) (DCGM_FI_DEV_FB_{state}{SCRAPED})" for state in ("USED", "FREE")
    )
    yield Panel(
        title="Memory used by node",
        queries=((f"100 * {used} / ({used} + {free})", node),),
        unit="percent",
        thresholds=((95, WARN),),
    )
    yield Panel(
        title="The ten hottest GPUs",
        queries=((f"topk(10, DCGM_FI_DEV_GPU_TEMP{SCRAPED})", "{{Hostname}} {{gpu}}"),),
        unit="celsius",
        thresholds=((hot, BAD),),
    )
    yield Panel(
        title="Power by node",
        queries=((f"sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE{SCRAPED})", node),),
        unit="watt",
    )
    by = "by (namespace, pod, Hostname)"
    hour = f"avg_over_time(DCGM_FI_DEV_GPU_UTIL{HELD}[1h])"
    yield Panel(
        title="Holders: GPUs, and mean utilization of the last hour",
        queries=((f"count {by} (DCGM_FI_DEV_GPU_UTIL{HELD})", "GPUs"),
                 (f"avg {by} ({hour})", "utilization")),
        kind="table",
        width=WIDTH,
        height=10,
    )  # fmt: skip
    for title, expression, unit, legend in monitored.metrics.panels if monitored.metrics else ():
        top = f"topk(10, {expression})"
        yield Panel(title=title, queries=((top, legend),), unit=unit)


def _place_panels(panels: Sequence[Panel]) -> Iterator[Json]:
    """Yield the panels as JSON, from left to right, in rows as high as their highest panel."""
    column = row = height = 0
    for number, panel in enumerate(panels, start=1):
        if column + panel.width > WIDTH:
            column, row, height = 0, row + height, 0
        place = {"h": panel.height, "w": panel.width, "x": column, "y": row}
        yield _panel_json(number, panel, place)
        column, height = column + panel.width, max(height, panel.height)


def _panel_json(number: int, panel: Panel, place: dict[str, int]) -> Json:
    is_table = panel.kind == "table"
    levels = ((None, OK), *panel.thresholds)
    steps = [{"color": color, "value": value} for value, color in levels]
    defaults: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries" and panel.thresholds:
        defaults["custom"] = {"thresholdsStyle": {"mode": "line"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "gridPos": place,
        "transformations": [{"id": "merge", "options": {}}] if is_table else [],
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": expression,
                "legendFormat": legend,
                **({"format": "table", "instant": True} if is_table else {}),
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _label_variable(name: str, label: str) -> Json:
    """Return a variable whose values are those of a label of the exporter's metrics."""
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": f"label_values(DCGM_FI_DEV_GPU_UTIL, {label})",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _pool_variable(pools: Sequence[WatchedPool]) -> Json:
    """Return the variable of the pools, each as a pattern of its nodes' names.

    In a query the pattern must stay as it is, so it is used as `${pool:raw}`.
    """
    pool_patterns = [
        (pool.name, "|".join(map(_escape_node, pool.nodes))) for pool in pools if pool.nodes
    ]
    return {
        "name": "pool",
        "type": "custom",
        "query": ", ".join(f"{name} : {pattern}" for name, pattern in pool_patterns),
        "multi": False,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _escape_node(node: str) -> str:
    """Return a node's name as part of a pattern in a PromQL string; only its dots are special."""
    return node.replace(".", "\\\\.")


def dashboard(monitoring: DesiredMonitoring, monitored: Monitored) -> str:
    """Return the dashboard as JSON; its variables choose data source, pool, node and namespace."""
    panels = [*_list_panels(monitoring.settings.hot_celsius, monitored)]
    document = {
        "title": f"GPU cluster {monitoring.stack}",
        "uid": uid(monitoring.stack),
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                _pool_variable(monitoring.pools),
                _label_variable("node", "Hostname"),
                _label_variable("namespace", "namespace"),
            ]
        },
        "panels": [*_place_panels(panels)],
    }
    return json.dumps(document, indent=1, sort_keys=True)
