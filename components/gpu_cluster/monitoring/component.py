"""Component for GPU monitoring: DCGM exporter, alert rules and a dashboard.

The component owns its namespace and the objects in it. It does not own Prometheus and Grafana:
ServiceMonitor and PrometheusRule objects are created if the cluster has their CRDs, and the
dashboard is a ConfigMap that Grafana's sidecar can load.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from gpu_cluster.desired.monitoring import DesiredMonitoring
from gpu_cluster.manifest import Manifest
from gpu_cluster.monitoring.values import objects
from gpu_cluster.platforms.base import Platform
from gpu_cluster.release.namespace import NamespaceArgs, own_namespace
from gpu_cluster.settings.monitoring import MonitoringSettings, OperatorObjects


@dataclass(frozen=True, kw_only=True)
class MonitoringArgs:
    """Arguments of the component `Monitoring`.

    Attributes:
        monitoring: Settings of the monitoring.
        platform: The GPU platform.
        groups: API groups that the API server offers.
        registry_credentials: Docker configuration in JSON, a secret. None: no credentials.
    """

    monitoring: DesiredMonitoring
    platform: Platform
    groups: frozenset[str]
    registry_credentials: pulumi.Input[str] | None = None

    @property
    def settings(self) -> MonitoringSettings:
        """Return the section `monitoring` of the settings."""
        return self.monitoring.settings

    @property
    def prometheus(self) -> bool:
        """Return whether objects of the Prometheus Operator are created."""
        if self.settings.operator_objects is OperatorObjects.AUTO:
            return "monitoring.coreos.com" in self.groups
        return self.settings.operator_objects is OperatorObjects.ALWAYS


class Monitoring(pulumi.ComponentResource):
    """The GPU monitoring of a cluster: exporter, alert rules and dashboard."""

    TYPE = "gpucluster:index:Monitoring"

    alerts: pulumi.Output[int]

    def __init__(
        self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the namespace and the objects of the GPU monitoring."""
        super().__init__(self.TYPE, name, None, opts)
        site = args.platform.site
        space = NamespaceArgs(
            context=site.context,
            namespace=args.settings.namespace,
            pull_secret=site.registry.pull_secret,
            credentials=args.registry_credentials,
        )
        needed = own_namespace(self, name, space)
        manifests = objects(args.monitoring, args.platform, prometheus=args.prometheus)
        for end, manifest in manifests.items():
            Manifest(
                f"{name}-{end}",
                manifest,
                pulumi.ResourceOptions(parent=self, depends_on=needed),
            )
        groups = manifests["alerts"]["spec"]["groups"] if args.prometheus else []
        self.alerts = pulumi.Output.from_input(sum(len(group["rules"]) for group in groups))
        self.register_outputs({"alerts": self.alerts})
