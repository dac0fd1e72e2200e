"""The pod that validates a node: one container per device. Pure functions.

Containers, not init containers: the kubelet gives an init container's devices to the next one again
(kubernetes v1.34 pkg/kubelet/cm/devicemanager/manager.go, devicesToReuse).
"""

from __future__ import annotations

import hashlib
from typing import Any

from components.desired.validation import POOL, PoolValidation
from components.kubernetes.labels import LABELS

Json = dict[str, Any]

NODE = "gpu-cluster/node"
"""Annotation of validation pods: the node; a label's value could not hold each node's name."""
CONTAINER = "gpu"
"""Containers are named by it and their number."""
LONGEST = 253
"""Characters of a pod's name."""

CAPABILITIES = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}

#: A CUDA context and two arrays of 200 kB; memory's limit is its request, so that a node that runs
#: short doesn't end these pods first.
REQUESTS = {"cpu": "100m", "memory": "1Gi"}


def pod_name(node: str) -> str:
    """Name of the pod that validates a node."""
    name = f"validate-{node}"
    if len(name) <= LONGEST:
        return name
    return f"validate-{hashlib.sha256(node.encode()).hexdigest()[:16]}"


def pod(pool: PoolValidation, node: str, ask: dict[str, int]) -> Json:
    """Return a validation pod.

    Args:
        pool: the node's pool.
        node: the node that it is for.
        ask: devices of each resource, each of which gets a container.
    """
    wanted = [name for name, number in ask.items() for _ in range(number)]
    common, claim = pool.pod, pool.pod["claimTemplate"]
    units = {offer.resource: offer.unit for offer in pool.offers}
    containers = [
        {
            "name": f"{CONTAINER}-{index}",
            "image": common["image"],
            "command": common["command"],
            "env": [CAPABILITIES],
            "resources": {
                "requests": dict(REQUESTS),
                "limits": {"memory": REQUESTS["memory"]},
                **_device(f"{CONTAINER}-{index}", claim),
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
        for index, _ in enumerate(wanted)
    ]
    spec = {
        **common["spec"],
        "activeDeadlineSeconds": pool.timeout_seconds + 120,
        "affinity": {"nodeAffinity": only(node)},
        "containers": containers,
    }
    if claim:
        names = [each["name"] for each in containers]
        spec["resourceClaims"] = [{"name": n, "resourceClaimTemplateName": claim} for n in names]
    else:
        for container, name in zip(containers, wanted, strict=True):
            container["resources"]["limits"][name] = str(units[name])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(node),
            "labels": {POOL: pool.pool, **LABELS},
            "annotations": {**common["annotations"], NODE: node},
        },
        "spec": spec,
    }


def _device(name: str, claim: str | None) -> Json:
    return {"claims": [{"name": name}]} if claim else {}


def only(node: str) -> Json:
    """Affinity for one node by its name, as DaemonSet pods have it: labels may be anything."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [{"matchFields": [field]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
