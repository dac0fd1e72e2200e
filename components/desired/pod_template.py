"""What the pods of a validation have in common. Pure functions."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

#: nvidia-smi comes with the driver: by CDI (nvidia-container-toolkit v1.17
#: pkg/nvcdi/driver-nvml.go, NewDriverBinariesDiscoverer), by the capability "utility" otherwise
#: (Container Toolkit user guide, "Driver Capabilities"), from gpu-manager in a folder of its own.
SCRIPT = 'PATH="$PATH:/usr/local/nvidia/bin"; nvidia-smi -L && exec "$@"'


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
