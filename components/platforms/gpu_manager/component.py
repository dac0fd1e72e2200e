"""TKEStack's gpu-manager by the project's own chart, and its scheduler extender's address.

Owns the release and, beside it, the extender's Service and the configuration that the cluster's
kube-scheduler must be given. Refuses to own the scheduler itself: it is a static pod of the
control plane, whose administrator mounts the ConfigMap.
"""

from __future__ import annotations

from typing import Any

import pulumi
import yaml

from components.manifest import Manifest
from components.platforms.device_plugin.component import PlatformArgs
from components.platforms.gpu_manager import values as chart
from components.platforms.release import release

LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}


def _configuration(spec: dict[str, Any]) -> str:
    address = str(spec.get("clusterIP", ""))
    return yaml.safe_dump(chart.scheduler_configuration(address), sort_keys=False)


class GpuManager(pulumi.ComponentResource):
    """The release ``gpu-manager``, in kube-system as document 002 has it."""

    TYPE = "gpucluster:index:GpuManager"

    version: pulumi.Output[str]
    revision: pulumi.Output[int]

    def __init__(
        self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        service = Manifest(
            f"{name}-extender",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": chart.ADMISSION,
                    "namespace": chart.NAMESPACE,
                    "labels": LABELS,
                    # The pods come with the release, which is made after it.
                    "annotations": {"pulumi.com/skipAwait": "true"},
                },
                "spec": {
                    "selector": {"name": chart.ADMISSION},
                    "ports": [
                        {"name": "extender", "port": chart.PORT, "targetPort": "extender"},
                    ],
                },
            },
            child,
        )
        Manifest(
            f"{name}-scheduler",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": chart.SCHEDULER,
                    "namespace": chart.NAMESPACE,
                    "labels": LABELS,
                },
                "data": {"scheduler.yaml": service.spec.apply(_configuration)},
            },
            child,
        )
        made = release(
            self,
            f"{name}-release",
            cluster=args.cluster,
            chart="gpu-manager",
            version=chart.VERSION,
            namespace_name=chart.NAMESPACE,
            values=chart.values(args.cluster),
            depends_on=[service],
        )
        self.revision = made.revision
        self.version = pulumi.Output.from_input(chart.VERSION)
        self.register_outputs({"version": self.version})
