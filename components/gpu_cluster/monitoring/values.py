"""Objects of the GPU monitoring: counters, alert rules, dashboard, exporter. Pure functions.

Sources: NVIDIA/dcgm-exporter 4.5.3-4.8.2 for the counters (etc/default-counters.csv) and the labels
of the metrics (internal/pkg/rendermetrics); NVIDIA "XID Errors" for XIDs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.charts.extra_values import merged, plain
from gpu_cluster.desired.monitoring import DesiredMonitoring, WatchedPool
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.monitoring.dashboard import dashboard
from gpu_cluster.platforms.base import Platform
from gpu_cluster.settings.monitoring import Counter, MonitoringSettings

Json = dict[str, Any]

EXPORTER = "dcgm-exporter"
PORT = 9400
SELECTED = {"app.kubernetes.io/name": EXPORTER}

# Counters that the exporter collects: name, kind, help text.
COUNTERS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling for temperature (in ns)."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Double-bit ECC errors since the driver loaded."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Single-bit ECC errors since the driver loaded."),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed."),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Rows remapped for such errors."),
)

# XIDs that a faulty program can cause; all others point to the hardware or the driver. 13: graphics
# engine exception, 31: memory page fault, 43: reset channel, 45: preemptive clean-up.
PROGRAM_XIDS = (13, 31, 43, 45)


def counters(more: Iterable[Counter] = ()) -> str:
    """Return the CSV file with the counters that DCGM exporter collects.

    Args:
        more: Counters of the settings; a counter replaces the default counter of the same name.
    """
    rows = {name: (kind, text) for name, kind, text in COUNTERS}
    rows |= {item.name: (str(item.kind), item.help or item.name) for item in more}
    return "".join(f"{name}, {kind}, {text}\n" for name, (kind, text) in rows.items())


def alert(
    name: str, expression: str, wait: str, severity: str, summary: str, cure: str, **labels: str
) -> Json:
    """Return an alert rule of Prometheus.

    Args:
        name: Name of the alert.
        expression: PromQL expression; the alert fires while it has results.
        wait: How long it must have results first, such as `5m`.
        severity: Value of the label `severity`: `critical` or `warning`.
        summary: One sentence that names what is wrong.
        cure: What the reader does about it.
        labels: More labels of the alert.
    """
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": severity, **labels},
        "annotations": {"summary": summary, "description": cure},
    }


def _hardware_alerts(hot_celsius: int) -> list[Json]:
    """Return the alerts based on DCGM's counters."""
    xids = "|".join(map(str, PROGRAM_XIDS))
    gpu = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"
    return [
        alert(
            "GpuXidError",
            # The XID gauge keeps its last value until another XID occurs, so an alert on its value
            # alone would never end.
            "DCGM_FI_DEV_XID_ERRORS > 0"
            + "".join(f" != {xid}" for xid in PROGRAM_XIDS)
            + " and changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0",
            "1m",
            "critical",
            f"{gpu} reports XID {{{{ $value }}}}",
            f"Look the XID up in NVIDIA's list and at dmesg on the host; not {xids}, which programs"
            " cause.",
        ),
        alert(
            "GpuEccUncorrectable",
            "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[15m]) > 0",
            "0m",
            "critical",
            f"{gpu} had uncorrectable ECC errors",
            "Drain the node and reset the GPU; if the error occurs again, have the GPU replaced.",
        ),
        alert(
            "GpuRowRemapFailed",
            "DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
            "0m",
            "critical",
            f"{gpu} can't remap a faulty memory row",
            "Have the GPU replaced.",
        ),
        alert(
            "GpuHot",
            f"DCGM_FI_DEV_GPU_TEMP > {hot_celsius}",
            "5m",
            "warning",
            f"{gpu} is at {{{{ $value }}}} °C",
            "Check the host's fans and air flow.",
        ),
        alert(
            "GpuThermalThrottling",
            "rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m]) > 0",
            "5m",
            "warning",
            f"{gpu} is slowed down for its temperature",
            "Check the host's fans and air flow.",
        ),
        alert(
            "GpuExporterDown",
            'absent(up{job=~".*dcgm-exporter.*"} == 1)',
            "10m",
            "warning",
            "No DCGM exporter responds",
            "See its DaemonSet's events; without it no GPU error is seen.",
        ),
    ]


def _cluster_alerts(pools: Iterable[WatchedPool], platform: Platform) -> list[Json]:
    """Return the alerts based on kube-state-metrics, such as fewer GPUs than declared."""
    alerts = []
    resource, daemon_set = platform.monitored.resource, platform.installation.servers.daemon_set
    for pool in pools:
        if resource is None:
            continue
        name, unit = resource
        gpus = pool.gpus
        nodes = "|".join(node.replace(".", "\\\\.") for node in pool.nodes)
        alerts.append(
            alert(
                "GpusBelowDeclared",
                f'(sum(kube_node_status_allocatable{{resource="{name}",node=~"{nodes}"}})'
                f" or vector(0)) < {gpus * unit}",
                "10m",
                "critical",
                f"Pool {pool.name} advertises fewer GPUs than the {gpus} declared",
                "Run the stack's preview: it names the nodes that fall short.",
                pool=pool.name,
            )
        )
    alerts.append(
        alert(
            "GpuPluginDown",
            f'kube_daemonset_status_number_unavailable{{daemonset="{daemon_set}"}} > 0',
            "10m",
            "critical",
            f"{{{{ $value }}}} pods of {daemon_set} don't run",
            "See their logs; new GPU pods are not started on these nodes.",
        )
    )
    return alerts


def alert_groups(monitoring: DesiredMonitoring, platform: Platform) -> Json:
    """Return a Prometheus rule file: a mapping with the key `groups`."""
    rules = [
        *_hardware_alerts(monitoring.settings.hot_celsius),
        *_cluster_alerts(monitoring.pools, platform),
    ]
    if platform.monitored.metrics:
        rules += [alert(*alert_fields) for alert_fields in platform.monitored.metrics.alerts]
    return {"groups": [{"name": "gpu-cluster", "rules": rules}]}


def _object_metadata(name: str, space: str, **labels: str) -> Json:
    return {"name": name, "namespace": space, "labels": {**LABELS, **labels}}


def _exporter_environment(declared: Mapping[str, str]) -> list[Json]:
    """Return the exporter's environment; a declared variable replaces the one of the same name."""
    defaults: list[Json] = [
        {"name": "DCGM_EXPORTER_LISTEN", "value": f":{PORT}"},
        {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {
            "name": "NODE_NAME",
            "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        },
    ]
    declared_variables = [{"name": name, "value": value} for name, value in declared.items()]
    variables: list[Json] = merged({"env": defaults}, {"env": declared_variables})["env"]
    return variables


def exporter(platform: Platform, settings: MonitoringSettings) -> Json:
    """Return the exporter's DaemonSet for all nodes of pools with GPUs.

    The node affinity is that of the platform's own pods. DCGM's profiling needs SYS_ADMIN
    (dcgm-exporter 4.5.3-4.8.2, dcgm-exporter.yaml).
    """
    registry = platform.site.registry
    pod: Json = {
        **registry.pull_secrets,
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
                        for key, value in platform.found_by
                    ]
                }
            }
        },
        "tolerations": platform.site.tolerations,
        "containers": [
            {
                "name": EXPORTER,
                "image": registry.deployed(settings.exporter_image),
                "args": ["-f", "/etc/gpu-cluster/counters.csv"],
                "env": _exporter_environment(settings.exporter.env),
                "ports": [{"name": "metrics", "containerPort": PORT}],
                "resources": plain(settings.exporter.resources)
                if settings.exporter.resources is not None
                else {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"cpu": "200m", "memory": "512Mi"},
                },
                "securityContext": {
                    "runAsUser": 0,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "counters", "mountPath": "/etc/gpu-cluster", "readOnly": True},
                    {
                        "name": "pod-resources",
                        "mountPath": "/var/lib/kubelet/pod-resources",
                        "readOnly": True,
                    },
                ],
            }
        ],
        "volumes": [
            {"name": "counters", "configMap": {"name": f"{EXPORTER}-counters"}},
            {"name": "pod-resources", "hostPath": {"path": "/var/lib/kubelet/pod-resources"}},
        ],
    }
    if platform.runtime_class:
        pod["runtimeClassName"] = platform.runtime_class
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _object_metadata(EXPORTER, settings.namespace),
        "spec": {
            "selector": {"matchLabels": SELECTED},
            "template": {"metadata": {"labels": SELECTED}, "spec": pod},
        },
    }


def _config_map(name: str, space: str, data: dict[str, str], **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _object_metadata(name, space, **labels),
        "data": data,
    }


def _service_monitor(
    settings: MonitoringSettings,
    name: str,
    labels: dict[str, str],
    space: str,
    port: str,
    path: str,
) -> Json:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _object_metadata(name, settings.namespace, **settings.labels),
        "spec": {
            "selector": {"matchLabels": labels},
            "namespaceSelector": {"matchNames": [space]},
            "endpoints": [
                {
                    "port": port,
                    "path": path,
                    "interval": f"{settings.interval_seconds}s",
                    # `namespace` and `pod` are the pod that holds the GPU, not the exporter's.
                    "honorLabels": True,
                }
            ],
        },
    }


def objects(
    monitoring: DesiredMonitoring, platform: Platform, *, prometheus: bool
) -> dict[str, Json]:
    """Return all monitoring objects except the namespace, by the suffix of their resource name.

    Args:
        monitoring: Settings of the monitoring.
        platform: The GPU platform.
        prometheus: Whether objects of the Prometheus Operator are created.
    """
    settings = monitoring.settings
    space = settings.namespace
    manifests = {
        "dashboard": _config_map(
            "gpu-cluster-dashboard",
            space,
            {"gpu-cluster.json": dashboard(monitoring, platform.monitored)},
            **settings.dashboard_labels,
        )
    }
    theirs, metrics = platform.monitored.exporter, platform.monitored.metrics
    if theirs is None:
        manifests["counters"] = _config_map(
            f"{EXPORTER}-counters", space, {"counters.csv": counters(settings.exporter.counters)}
        )
        manifests["exporter"] = exporter(platform, settings)
        manifests["service"] = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                **_object_metadata(EXPORTER, space, **SELECTED),
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            "spec": {
                "selector": SELECTED,
                "ports": [{"name": "metrics", "port": PORT, "targetPort": "metrics"}],
            },
        }
    if prometheus:
        exporter_namespace = platform.installation.namespace if theirs else space
        selected, port = (dict(theirs.labels), theirs.port) if theirs else (SELECTED, "metrics")
        manifests["service-monitor"] = _service_monitor(
            settings, EXPORTER, selected, exporter_namespace, port, "/metrics"
        )
        if metrics:
            manifests["share-monitor"] = _service_monitor(
                settings,
                metrics.service,
                dict(metrics.labels),
                platform.installation.namespace,
                metrics.port,
                metrics.path,
            )
        manifests["alerts"] = {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": _object_metadata("gpu-cluster", space, **settings.labels),
            "spec": alert_groups(monitoring, platform),
        }
    return manifests
