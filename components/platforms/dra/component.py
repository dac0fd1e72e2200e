"""NVIDIA's driver for Dynamic Resource Allocation by its chart, and the claims it offers.

Owns its namespace, the release with its DeviceClasses, the custom resource definitions that came
with it, and one ResourceClaimTemplate per pool and namespace.
"""

from __future__ import annotations

import pulumi
import pulumi_command as command

from components.manifest import Manifest
from components.nodes.pools import gpu_pools
from components.operation import command_line, document
from components.platforms.device_plugin.component import PlatformArgs
from components.platforms.dra import values as chart
from components.platforms.pull_secret import pull_secret
from components.platforms.release import namespace, release


class DraDriver(pulumi.ComponentResource):
    """The release ``nvidia-dra-driver-gpu``."""

    TYPE = "gpucluster:index:DraDriver"

    version: pulumi.Output[str]
    revision: pulumi.Output[int]

    def __init__(
        self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        cluster, dra = args.cluster, args.cluster.dra
        space = namespace(self, f"{name}-namespace", dra.namespace)
        definitions = command.local.Command(
            f"{name}-definitions",
            create=command_line("crds", "note"),
            delete=command_line("crds", "remove"),
            stdin=document({"context": cluster.kubernetes.context, "names": chart.DEFINITIONS}),
            opts=pulumi.ResourceOptions(parent=self),
        )
        secrets = pull_secret(self, name, cluster, args.registry_credentials, space, dra.namespace)
        driver = release(
            self,
            f"{name}-release",
            cluster=cluster,
            chart=chart.CHART,
            version=dra.version,
            namespace_name=dra.namespace,
            values=chart.values(cluster),
            depends_on=[space, definitions, *secrets],
        )
        for pool in gpu_pools(cluster):
            for where in dra.claim_namespaces:
                Manifest(
                    f"{name}-{pool.name}-{where}-claim",
                    chart.claim_template(
                        f"{pool.name}-gpu", where, 1, dra.selectors.get(pool.name)
                    ),
                    pulumi.ResourceOptions(parent=self, depends_on=[driver]),
                )
        self.revision = driver.revision
        self.version = pulumi.Output.from_input(dra.version)
        self.register_outputs({"version": self.version})
