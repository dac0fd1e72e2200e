"""Reasons why a validation pod does not run."""

from __future__ import annotations

from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.nodes.causes import read
from gpu_cluster.nodes.causes.pod import cause_of
from gpu_cluster.validation.pod import CONTAINER
from gpu_rules.printable import printable


def is_unscheduled(pod: Json) -> bool:
    """Return whether the scheduler has not assigned the pod to a node."""
    return not pod["spec"].get("nodeName")


def is_unschedulable(pod: Json) -> bool:
    """Return whether the scheduler has found no place for the pod yet."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return is_unscheduled(pod) and any(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for condition in conditions
    )


def reason(pod: Json, prefix: str = CONTAINER) -> str:
    """Return why a pod does not run, according to the pod's status.

    Args:
        prefix: Prefix of the names of the pod's own containers.
    """
    if cause := cause_of(pod):
        return cause.text
    if is_unscheduled(pod):
        return "not looked at by the scheduler yet"
    if added := injected(pod, prefix):
        return f"runs with containers that it did not declare: {', '.join(added)}"
    return "its containers have not ended yet"


def reason_without_pod(job: Json, refusal: str) -> str:
    """Return why a validation Job has no pod.

    Args:
        refusal: Why its controller can't create the pod. Empty: nothing is known.
    """
    if job["spec"].get("suspend"):
        return (
            "its Job is suspended, as a queue such as Kueue does; cure: exempt the namespace of "
            "the validation in the queue's configuration"
        )
    return refusal or "the Job controller (kube-controller-manager) has not created its pod yet"


async def explained(client: Client, pod: Json, prefix: str = CONTAINER) -> str:
    """Return why a pod does not run, according to its status, events and logs.

    Failures of sandboxes, volumes and devices are reported only in events: the container
    statuses then contain just `ContainerCreating` (kubernetes v1.34.4
    pkg/kubelet/kuberuntime/kuberuntime_manager.go).

    Args:
        prefix: Prefix of the names of the pod's own containers.
    """
    cause = await read.explained(client, pod)
    return str(cause) if cause else reason(pod, prefix)


def injected(pod: Json, prefix: str = CONTAINER) -> list[str]:
    """Return the names of injected containers, such as a service mesh's sidecar."""
    spec = pod["spec"]
    both = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = [container["name"] for container in both]
    return [printable(name, 63) for name in names if not name.startswith(prefix)]
