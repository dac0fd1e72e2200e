"""Install NVIDIA's device plugin on a cluster that this program makes, and validate each GPU.

The virtual environment has the package `gpu-cluster` (docs/how-to/package.md).
"""

import pulumi
import pulumi_command

from gpu_cluster import GpuClusterArgs, GpuDevicePlugin, GpuValidation

SETTINGS = {
    "version": "v1",
    "kubernetes": {"context": "my-cluster"},
    "platform": "device-plugin",
    "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
}

# Replace this by any resource that outputs a kubeconfig, such as a cluster of EKS, GKE or AKS.
cluster = pulumi_command.local.Command(
    "cluster",
    create='cat "$CLUSTER_KUBECONFIG"',
    opts=pulumi.ResourceOptions(additional_secret_outputs=["stdout"]),
)
args = GpuClusterArgs(settings=SETTINGS, kubeconfig=cluster.stdout)
plugin = GpuDevicePlugin("plugin", args)
# The validation begins when the release is ready, and then waits until the nodes advertise their
# GPUs (`validation.timeoutSeconds`).
validation = GpuValidation("validation", args, pulumi.ResourceOptions(depends_on=plugin.ready))
pulumi.export("charts", plugin.charts)
pulumi.export("nodes", validation.nodes)
