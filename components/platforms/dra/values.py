"""Values of the chart ``dra-driver-nvidia-gpu``, and claims against its device class.

Value paths: kubernetes-sigs/dra-driver-nvidia-gpu v0.5.0, deployments/helm/dra-driver-nvidia-gpu.
"""

from __future__ import annotations

from typing import Any

from components.kubernetes.labels import LABELS
from components.kubernetes.resources import DRA_DRIVER
from components.platforms.site import Site
from components.settings.dra import DraSettings

CHART = "dra-driver-nvidia-gpu"
#: The chart's image (0.5.0, values.yaml).
IMAGE = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"
#: What the chart and its subcharts bring under ``crds/``.
DEFINITIONS = ["computedomaincliques.resource.nvidia.com", "computedomains.resource.nvidia.com"]


def values(dra: DraSettings, site: Site) -> dict[str, Any]:
    """Return the Helm values.

    ``gpuResourcesEnabledOverride``: the chart refuses GPUs without it, because GPUs by DRA and by
    the device plugin on the same nodes would be given out twice; here one platform excludes the
    other. The kubelet plugin tolerates NVIDIA's own taint only by default.
    """
    registry = site.registry
    images: dict[str, Any] = {}
    if registry.mirror:
        images["image"] = {"repository": registry.rewritten(IMAGE)}
    if registry.pull_secret:
        images["imagePullSecrets"] = [{"name": registry.pull_secret}]
    return {
        **images,
        "gpuResourcesEnabledOverride": True,
        "resources": {
            "gpus": {"enabled": True},
            "computeDomains": {"enabled": dra.compute_domains},
        },
        "kubeletPlugin": {"tolerations": site.tolerations},
    }


def claim_template(
    name: str, namespace: str, count: int, selector: str | None = None
) -> dict[str, Any]:
    """A ResourceClaimTemplate for whole GPUs.

    Args:
        name: of the template.
        namespace: of the template.
        count: how many GPUs of one node a claim gets.
        selector: a CEL expression over a device, or None.
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
