"""NVIDIA's GPU Operator by its chart.

Owns its namespace, the release, the custom resource definitions that came with it, and the labels
that the operator leaves on nodes. Refuses to own the operands: the operator makes and removes them,
and its transient labels are its own.
"""

from __future__ import annotations

import pulumi
import pulumi_command as command

from components.operation import command_line, document
from components.platforms.device_plugin.component import PlatformArgs
from components.platforms.gpu_operator import values as chart
from components.platforms.gpu_operator.license_secret import license_secret
from components.platforms.pull_secret import pull_secret
from components.platforms.release import definitions, namespace, release


class GpuOperator(pulumi.ComponentResource):
    """The release ``gpu-operator``."""

    TYPE = "gpucluster:index:GpuOperator"

    version: pulumi.Output[str]
    revision: pulumi.Output[int]

    def __init__(
        self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        operator = args.cluster.gpu_operator
        space = namespace(self, f"{name}-namespace", operator.namespace)
        names = chart.definitions(operator.version)
        brought = definitions(self, f"{name}-definitions", args.cluster, names)
        secrets = [
            *pull_secret(
                self, name, args.cluster, args.registry_credentials, space, operator.namespace
            ),
            *license_secret(self, name, operator, args.license_token, space),
        ]
        labels = command.local.Command(
            f"{name}-labels",
            create=command_line("operator_labels", "note"),
            delete=command_line("operator_labels", "remove"),
            stdin=document(
                {
                    "context": args.cluster.kubernetes.context,
                    "labels": chart.NODE_LABELS,
                    "annotations": chart.NODE_ANNOTATIONS,
                }
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        made = release(
            self,
            f"{name}-release",
            cluster=args.cluster,
            chart="gpu-operator",
            version=operator.version,
            namespace_name=operator.namespace,
            values=chart.values(args.cluster, operator),
            depends_on=[space, brought, labels, *secrets],
        )
        self.revision = made.revision
        self.version = pulumi.Output.from_input(operator.version)
        self.register_outputs({"version": self.version})
