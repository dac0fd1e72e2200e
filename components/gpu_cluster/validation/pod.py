"""The pod template that validates a node, with one container per device. Pure functions.

The pod has containers, not init containers, because the kubelet reuses an init container's devices
for the next init container (kubernetes v1.34 pkg/kubelet/cm/devicemanager/manager.go,
devicesToReuse).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_cluster.desired.validation import POOL, PoolValidation
from gpu_cluster.kubernetes.labels import LABELS
from gpu_cluster.platforms.base import Offer

Json = dict[str, Any]

NODE = "gpu-cluster/node"
"""Annotation of validation pods with the node's name, which may be too long for a label value."""
CONTAINER = "gpu"
"""Prefix of the containers' names; a number follows."""
SHARE = "-share"
"""Suffix of the name of a container that requests a share of a device."""
SPARE_SECONDS = 120
"""Seconds after the validation's time limit when a pod and its Job end that nobody has deleted."""

CAPABILITIES = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}

# Enough for a CUDA context and two arrays of 200 kB. The memory limit equals the request, so that
# these pods are not the first to be killed when a node runs out of memory.
REQUESTS = {"cpu": "100m", "memory": "1Gi"}


def pod_template(pool: PoolValidation, node: str, ask: dict[str, int]) -> Json:
    """Return the pod template of a validation Job.

    Args:
        ask: Number of devices to request, by resource. Each device gets a container.
    """
    offers = {offer.resource: offer for offer in pool.offers}
    limits = [
        limit for name, number in ask.items() for limit in _container_limits(offers[name], number)
    ]
    common, claim = pool.pod, pool.pod["claimTemplate"]
    shares = (offer.share for offer in pool.offers if offer.share)
    spreading = {key: value for share in shares for key, value in share.annotations.items()}
    containers = []
    for index, (suffix, amounts) in enumerate(limits):
        name = f"{CONTAINER}-{index}{suffix}"
        resources: Json = {"requests": dict(REQUESTS), "limits": {"memory": REQUESTS["memory"]}}
        if claim:
            resources["claims"] = [{"name": name}]
        else:
            resources["limits"] |= amounts
        containers.append(
            {
                "name": name,
                "image": common["image"],
                "command": common["command"],
                "env": [CAPABILITIES],
                "resources": resources,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
            }
        )
    spec = {
        **common["spec"],
        "activeDeadlineSeconds": pool.timeout_seconds + SPARE_SECONDS,
        "affinity": {"nodeAffinity": only(node)},
        "containers": containers,
    }
    if claim:
        names = [container["name"] for container in containers]
        spec["resourceClaims"] = [{"name": n, "resourceClaimTemplateName": claim} for n in names]
    return {
        "metadata": {
            "labels": {POOL: pool.pool, **LABELS},
            "annotations": {**spreading, **common["annotations"], NODE: node},
        },
        "spec": spec,
    }


def _container_limits(offer: Offer, number: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each container's name suffix and the resource limits that request one device."""
    share = offer.share
    shares = 0
    if share and number:
        shares = number if share.is_only else 1
        for _ in range(shares):
            yield SHARE, {name: str(amount) for name, amount in share.amounts.items()}
    for _ in range(number - shares):
        yield "", {offer.resource: str(offer.unit)}


def only(node: str) -> Json:
    """Return a node affinity for one node's name, like that of DaemonSet pods.

    The term matches the field `metadata.name`, because a node's hostname label may differ.
    """
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [{"matchFields": [field]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
