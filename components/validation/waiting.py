"""Reasons why a validation pod does not run. Pure functions."""

from __future__ import annotations

from components.kubernetes.api import Json
from components.validation.pod import CONTAINER
from policies.printable import printable

SHOWN = 400
"""Maximum number of characters of one message."""


def is_unscheduled(pod: Json) -> bool:
    """Return whether the scheduler has not assigned the pod to a node."""
    return not pod["spec"].get("nodeName")


def reason(pod: Json, prefix: str = CONTAINER) -> str:
    """Return what keeps a pod from running: a message of the scheduler or of its containers.

    Failed image pulls, volumes, sandboxes and injected containers all show in the container
    statuses (kubernetes v1.34 pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime).

    Args:
        pod: The pod.
        prefix: Prefix of the names of the pod's own containers.
    """
    status = pod.get("status", {})
    if is_unscheduled(pod):
        for condition in status.get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return (
                    f"not scheduled: {printable(condition.get('message') or 'no message', SHOWN)}"
                )
        return "not looked at by the scheduler yet"
    reasons = []
    both = ("initContainerStatuses", "containerStatuses")
    for container in [one for kind in both for one in status.get(kind) or []]:
        waiting = container.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            text = f"{waiting['reason']}: {waiting.get('message') or 'no message'}"
            reasons.append(printable(text, SHOWN))
    if reasons:
        # Containers with the same image have the same message.
        return "; ".join(dict.fromkeys(reasons))
    if added := injected(pod, prefix):
        return f"runs beside containers that it did not ask for: {', '.join(added)}"
    return "its containers have not ended yet"


def injected(pod: Json, prefix: str = CONTAINER) -> list[str]:
    """Return the names of containers that others injected, such as a service mesh's sidecar."""
    spec = pod["spec"]
    both = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = [container["name"] for container in both]
    return [printable(name, 63) for name in names if not name.startswith(prefix)]
