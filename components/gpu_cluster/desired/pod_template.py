"""Fields of a pod spec that all validation pods of a pool share."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

# nvidia-smi is a part of the driver. Containers get the program through CDI
# (nvidia-container-toolkit v1.17 pkg/nvcdi/driver-nvml.go, NewDriverBinariesDiscoverer), or else
# through the driver capability "utility" (Container Toolkit user guide, "Driver Capabilities").
# The device plugin gpu-manager mounts the program into /usr/local/nvidia/bin, which is not in the
# default PATH.
# The lines that show a device or a passed test also become the container's termination message. So
# the result is in the pod's status, and no log has to be requested (Kubernetes documentation,
# "Customizing the termination message"). A message may have 12 KiB divided by the number of the
# pod's containers (kubernetes v1.34.4 pkg/kubelet/status/status_manager.go, normalizeStatus).
SCRIPT = r"""PATH="$PATH:/usr/local/nvidia/bin"
report() {
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line"
        case $line in
            "GPU "* | *" MIG "* | *"Test PASSED"*)
                printf '%s\n' "$line" 2>/dev/null >>/dev/termination-log
                ;;
        esac
    done
}
exec 3>&1
code=$({ { { nvidia-smi -L && "$@"; } 3>&- 4>&- 2>&1; echo $? >&4; } | report >&3; } 4>&1)
exit "$code"
"""


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
    """Return the fields that all validation pods of a pool share, in the form of a request.

    Args:
        image: Image of all containers.
        command: Program that runs a CUDA kernel, with its arguments.
        tolerations: Tolerations for the taints of the pool's nodes.
        runtime_class: Name of the RuntimeClass; None for the default runtime.
        pull_secret: Name of the image pull Secret, or None.
        annotations: Annotations of the pods.
        priority_class: Name of the PriorityClass.
        claim_template: Name of the ResourceClaimTemplate of one device; None if devices are
            extended resources.
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
    """Return the pod spec fields that all validation pods share.

    The pods run once and don't restart. Their PriorityClass lets any other pod preempt them.

    Args:
        runtime_class: Name of the RuntimeClass; None for the default runtime.
        pull_secret: Name of the image pull Secret, or None.
        priority_class: Name of the PriorityClass.
    """
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        # Another pod that needs the GPU must not wait for the grace period of a validation pod.
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": priority_class,
        **({"imagePullSecrets": [{"name": pull_secret}]} if pull_secret else {}),
        **({"runtimeClassName": runtime_class} if runtime_class else {}),
    }
