"""The pod that validates a node: one container per device. Pure functions.

Containers, not init containers: the kubelet gives an init container's devices to the next one again
(kubernetes v1.34 pkg/kubelet/cm/devicemanager/manager.go, devicesToReuse).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.desired.validation import PoolValidation

Json = dict[str, Any]

POOL = "gpu-cluster/validation"
"""Label of validation pods: the pool."""
NODE = "gpu-cluster/node"
"""Annotation of validation pods: the node; a label's value could not hold each node's name."""
CONTAINER = "gpu"
"""Containers are named by it and their number."""
LONGEST = 253
"""Characters of a pod's name."""

#: nvidia-smi comes with the driver: by CDI (nvidia-container-toolkit v1.17
#: pkg/nvcdi/driver-nvml.go, NewDriverBinariesDiscoverer), by the capability "utility" otherwise
#: (Container Toolkit user guide, "Driver Capabilities"), from gpu-manager in a folder of its own.
SCRIPT = 'PATH="$PATH:/usr/local/nvidia/bin"; nvidia-smi -L && exec "$@"'
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


def template(
    *,
    image: str,
    command: tuple[str, ...],
    tolerations: list[Json],
    runtime_class: str | None,
    pull_secret: str | None,
    annotations: dict[str, str],
    priority_class: str,
    claim_template: str | None,
) -> Json:
    """What all validation pods of a pool have in common, as `pod` takes it.

    Args:
        image: of all containers.
        command: the program that runs a kernel.
        tolerations: of the nodes' taints.
        runtime_class: RuntimeClass; None: the default one.
        pull_secret: name of the image pull secret.
        annotations: of the pods.
        priority_class: name of the PriorityClass.
        claim_template: ResourceClaimTemplate of one device, where devices come by claims.
    """
    return {
        "image": image,
        "command": ["sh", "-c", SCRIPT, "validate", *command],
        "annotations": annotations,
        "claimTemplate": claim_template,
        "spec": {
            **pod_spec(
                runtime_class=runtime_class,
                pull_secret=pull_secret,
                priority_class=priority_class,
            ),
            "tolerations": tolerations,
        },
    }


def pod_spec(*, runtime_class: str | None, pull_secret: str | None, priority_class: str) -> Json:
    """What all pods of the validation have in common: they run once, and disturb nobody.

    Args:
        runtime_class: RuntimeClass; None: the default one.
        pull_secret: name of the image pull secret.
        priority_class: name of the PriorityClass.
    """
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        # A pod that wants the GPU waits for no grace period of ours.
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": priority_class,
        **({"imagePullSecrets": [{"name": pull_secret}]} if pull_secret else {}),
        **({"runtimeClassName": runtime_class} if runtime_class else {}),
    }


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
            "labels": {POOL: pool.pool, "app.kubernetes.io/managed-by": "gpu-cluster"},
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
