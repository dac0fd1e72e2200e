"""Helm values of the chart `dra-driver-nvidia-gpu`, and claim templates for its device class.

Value paths: kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0, deployments/helm/dra-driver-nvidia-gpu.
"""

from __future__ import annotations

from typing import Any

from gpu_cluster.charts.extra_values import merged
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.dra import DraSettings

CHART = "dra-driver-nvidia-gpu"
# Image of the chart (0.5.0, values.yaml).
IMAGE = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"
# CustomResourceDefinitions in the folders `crds/` of the chart and its subcharts.
DEFINITIONS = ["computedomaincliques.resource.nvidia.com", "computedomains.resource.nvidia.com"]


def values(dra: DraSettings, site: Site) -> dict[str, Any]:
    """Return the Helm values.

    The chart rejects GPUs unless `gpuResourcesEnabledOverride` is true, because a device plugin on
    the same nodes would allocate the same GPUs a second time. Here a stack has only one platform.
    By default the kubelet plugin tolerates only NVIDIA's own taint, so its tolerations are set.
    """
    registry = site.registry
    images: dict[str, Any] = {}
    if registry.mirror:
        images["image"] = {"repository": registry.rewritten(IMAGE)}
    if registry.pull_secret:
        images["imagePullSecrets"] = [{"name": registry.pull_secret}]
    values: dict[str, Any] = {
        **images,
        "gpuResourcesEnabledOverride": True,
        "resources": {
            "gpus": {"enabled": True},
            "computeDomains": {"enabled": dra.compute_domains},
        },
        "kubeletPlugin": {"tolerations": site.tolerations},
    }
    return merged(values, dra.extra_values)


def claim_template(
    name: str, namespace: str, count: int, selector: str | None = None
) -> dict[str, Any]:
    """Return a ResourceClaimTemplate for whole GPUs.

    Args:
        name: Name of the template.
        namespace: Namespace of the template.
        count: Number of GPUs of one node that a claim gets.
        selector: CEL expression over a device, or None for any GPU.
    """
    request: dict[str, Any] = {
        "deviceClassName": DRA_DRIVER,
        "allocationMode": "ExactCount",
        "count": count,
    }
    if selector:
        request["selectors"] = [{"cel": {"expression": selector}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": LABELS,
        },
        "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": request}]}}},
    }
