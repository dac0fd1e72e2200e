"""Values of the chart ``gpu-operator``.

Value paths: NVIDIA/gpu-operator v26.7.0, deployments/gpu-operator/values.yaml.
"""

from __future__ import annotations

from typing import Any

import config

from ..pools import gpu_pools, tolerations

#: What the chart and its subchart bring under ``crds/`` (v26.7.0; node-feature-discovery 0.19.0).
DEFINITIONS = [
    "clusterpolicies.nvidia.com",
    "computedomaincliques.resource.nvidia.com",
    "computedomains.resource.nvidia.com",
    "gpuclusters.nvidia.com",
    "nodefeaturegroups.nfd.k8s-sigs.io",
    "nodefeaturerules.nfd.k8s-sigs.io",
    "nodefeatures.nfd.k8s-sigs.io",
    "nvidiadrivers.nvidia.com",
]


def values(cluster: config.Cluster, operator: config.GpuOperator) -> dict[str, Any]:
    """Helm values for a configuration.

    ``toolkit.env`` RUNTIME_CONFIG_SOURCE=file keeps the drop-in's version at the root's: read from
    the daemon it would be migrated to version 4, which containerd 2.3 refuses beside an older root
    (NVIDIA/gpu-operator#2646).
    """
    driver: dict[str, Any] = {"enabled": cluster.driver.managed_by_operator}
    if cluster.driver.managed_by_operator and cluster.driver.version:
        driver["version"] = cluster.driver.version
    toolkit: dict[str, Any] = {"enabled": operator.toolkit}
    if operator.toolkit:
        toolkit["env"] = [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]
    return {
        "driver": driver,
        "toolkit": toolkit,
        "cdi": {"enabled": cluster.runtime.cdi},
        "daemonsets": {"tolerations": tolerations(gpu_pools(cluster))},
        "dcgmExporter": {"serviceMonitor": {"enabled": False}},
    }
