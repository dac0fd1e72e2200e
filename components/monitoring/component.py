"""DCGM's exporter, alert rules and a dashboard.

Owns its namespace and what is in it. Refuses to own Prometheus and Grafana: their objects
(ServiceMonitor, PrometheusRule) are made where the cluster has their definitions, and the
dashboard waits in a ConfigMap for Grafana's sidecar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from components.desired.monitoring import DesiredMonitoring
from components.manifest import Manifest
from components.monitoring import values as content
from components.platforms.base import Platform
from components.release.namespace import namespace
from components.release.pull_secret import pull_secret, pull_secrets
from components.settings.monitoring import Monitoring as Settings
from components.settings.monitoring import OperatorObjects

Json = dict[str, Any]

EXPORTER = "dcgm-exporter"
PORT = 9400
LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}
SELECTED = {"app.kubernetes.io/name": EXPORTER}


@dataclass(frozen=True, kw_only=True)
class MonitoringArgs:
    """What `Monitoring` needs.

    Attributes:
        monitoring: what watches the GPUs.
        platform: the platform.
        groups: API groups that the cluster was seen to serve.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
    """

    monitoring: DesiredMonitoring
    platform: Platform
    groups: frozenset[str]
    registry_credentials: pulumi.Input[str] | None = None

    @property
    def settings(self) -> Settings:
        """The section `monitoring`."""
        return self.monitoring.settings

    @property
    def prometheus(self) -> bool:
        """Whether the Prometheus operator's objects are made."""
        if self.settings.operator_objects is OperatorObjects.AUTO:
            return "monitoring.coreos.com" in self.groups
        return self.settings.operator_objects is OperatorObjects.ALWAYS


def _metadata(name: str, space: str, **labels: str) -> Json:
    return {"name": name, "namespace": space, "labels": {**LABELS, **labels}}


def exporter(platform: Platform, settings: Settings) -> Json:
    """The exporter's DaemonSet on all nodes of pools with GPUs.

    Found as the platform's own pods find them; SYS_ADMIN is what DCGM's profiling needs
    (dcgm-exporter 4.5.3-4.8.2, dcgm-exporter.yaml).
    """
    registry = platform.site.registry
    pod: Json = {
        **pull_secrets(registry),
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
                "env": [
                    {"name": "DCGM_EXPORTER_LISTEN", "value": f":{PORT}"},
                    {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
                    {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                    {
                        "name": "NODE_NAME",
                        "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                    },
                ],
                "ports": [{"name": "metrics", "containerPort": PORT}],
                "resources": {
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
        "metadata": _metadata(EXPORTER, settings.namespace),
        "spec": {
            "selector": {"matchLabels": SELECTED},
            "template": {"metadata": {"labels": SELECTED}, "spec": pod},
        },
    }


def _config_map(name: str, space: str, data: dict[str, str], **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(name, space, **labels),
        "data": data,
    }


def _service_monitor(
    settings: Settings, name: str, labels: dict[str, str], space: str, port: str, path: str
) -> Json:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _metadata(name, settings.namespace, **settings.labels),
        "spec": {
            "selector": {"matchLabels": labels},
            "namespaceSelector": {"matchNames": [space]},
            "endpoints": [
                {"port": port, "path": path, "interval": f"{settings.interval_seconds}s"}
            ],
        },
    }


def objects(args: MonitoringArgs) -> dict[str, Json]:
    """Every object beside the namespace, by the end of its resource's name."""
    platform, settings = args.platform, args.settings
    space = settings.namespace
    manifests = {
        "dashboard": _config_map(
            "gpu-cluster-dashboard",
            space,
            {"gpu-cluster.json": content.dashboard(platform.monitored)},
            **settings.dashboard_labels,
        )
    }
    theirs, metrics = platform.monitored.exporter, platform.monitored.metrics
    if theirs is None:
        manifests["counters"] = _config_map(
            f"{EXPORTER}-counters", space, {"counters.csv": content.counters()}
        )
        manifests["exporter"] = exporter(platform, settings)
        manifests["service"] = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                **_metadata(EXPORTER, space, **SELECTED),
                "annotations": {"pulumi.com/skipAwait": "true"},
            },
            "spec": {
                "selector": SELECTED,
                "ports": [{"name": "metrics", "port": PORT, "targetPort": "metrics"}],
            },
        }
    if args.prometheus:
        where = platform.namespace if theirs else space
        selected, port = (dict(theirs.labels), theirs.port) if theirs else (SELECTED, "metrics")
        manifests["service-monitor"] = _service_monitor(
            settings, EXPORTER, selected, where, port, "/metrics"
        )
        if metrics:
            manifests["share-monitor"] = _service_monitor(
                settings,
                metrics.service,
                {"name": metrics.service},
                platform.namespace,
                metrics.port,
                metrics.path,
            )
        manifests["alerts"] = {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": _metadata("gpu-cluster", space, **settings.labels),
            "spec": content.alert_groups(args.monitoring, platform),
        }
    return manifests


class Monitoring(pulumi.ComponentResource):
    """What watches the GPUs."""

    TYPE = "gpucluster:index:Monitoring"

    alerts: pulumi.Output[int]

    def __init__(
        self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        context = args.platform.site.context
        space = namespace(self, f"{name}-namespace", context, args.settings.namespace)
        secrets = pull_secret(
            self,
            name,
            args.platform.site.registry,
            args.registry_credentials,
            space,
            args.settings.namespace,
        )
        for end, manifest in objects(args).items():
            Manifest(
                f"{name}-{end}",
                manifest,
                pulumi.ResourceOptions(parent=self, depends_on=[space, *secrets]),
            )
        groups = content.alert_groups(args.monitoring, args.platform)["groups"]
        self.alerts = pulumi.Output.from_input(sum(len(group["rules"]) for group in groups))
        self.register_outputs({"alerts": self.alerts})
