"""DCGM's exporter, alert rules and a dashboard.

Owns its namespace and what is in it. Refuses to own Prometheus and Grafana: their objects
(ServiceMonitor, PrometheusRule) are made where the cluster has their definitions, and the
dashboard waits in a ConfigMap for Grafana's sidecar.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.desired.monitoring import DesiredMonitoring
from components.manifest import Manifest
from components.monitoring.values import objects
from components.platforms.base import Platform
from components.release.namespace import NamespaceArgs, own_namespace
from components.settings.monitoring import MonitoringSettings, OperatorObjects


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
    def settings(self) -> MonitoringSettings:
        """The section `monitoring`."""
        return self.monitoring.settings

    @property
    def prometheus(self) -> bool:
        """Whether the Prometheus operator's objects are made."""
        if self.settings.operator_objects is OperatorObjects.AUTO:
            return "monitoring.coreos.com" in self.groups
        return self.settings.operator_objects is OperatorObjects.ALWAYS


class Monitoring(pulumi.ComponentResource):
    """What watches the GPUs."""

    TYPE = "gpucluster:index:Monitoring"

    alerts: pulumi.Output[int]

    def __init__(
        self, name: str, args: MonitoringArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
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
