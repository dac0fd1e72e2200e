"""Why a validation pod does not run. Pure functions."""

from __future__ import annotations

from components.kubernetes.api import Json
from components.validation.pod import CONTAINER
from policies.printable import printable

SHOWN = 400
"""Characters of one message."""


def is_unscheduled(pod: Json) -> bool:
    """Whether the scheduler has found no place for a pod."""
    return not pod["spec"].get("nodeName")


def reason(pod: Json, prefix: str = CONTAINER) -> str:
    """What keeps a pod from running: the scheduler's message, or its containers' own.

    Args:
        pod: the pod.
        prefix: how the names of our containers begin.

    Image pulls that fail, volumes, sandboxes and injected containers all show in the statuses
    (kubernetes v1.34 pkg/kubelet/images/types.go, pkg/kubelet/kuberuntime).
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
        return "; ".join(dict.fromkeys(reasons))  # containers of one image say the same
    if added := injected(pod, prefix):
        return f"runs beside containers that it did not ask for: {', '.join(added)}"
    return "its containers have not ended yet"


def injected(pod: Json, prefix: str = CONTAINER) -> list[str]:
    """Containers that somebody put into our pod, such as a service mesh's sidecar."""
    spec = pod["spec"]
    both = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = [container["name"] for container in both]
    return [printable(name, 63) for name in names if not name.startswith(prefix)]
