"""Causes in the statuses of a pod's containers. Pure functions.

Sources: kubernetes v1.34.4, pkg/kubelet/images/types.go (image pulls),
pkg/kubelet/kuberuntime/kuberuntime_container.go and pkg/kubelet/container/sync_result.go (creation
and start of containers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.causes.cause import Around, Cause, Kind, shown, telling_line
from gpu_cluster.nodes.causes.cures import cure_of, registry_cure
from gpu_rules.printable import printable

IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
PATIENCE = 3
"""Minutes after which a state that has no reason in the API is no normal start any more."""
WAITS = ("", "PodInitializing", "ContainerCreating")
"""Waiting reasons of containers that don't name the cause; an event of the pod names it."""
CRASH_LOOP = "CrashLoopBackOff"
OUT_OF_MEMORY = "OOMKilled"
STATUSES = ("initContainerStatuses", "containerStatuses")


def statuses(pod: Json) -> list[Json]:
    """Return the statuses of a pod's containers, init containers first."""
    status = pod.get("status") or {}
    return [container_status for kind in STATUSES for container_status in status.get(kind) or []]


def is_running(status: Json) -> bool:
    """Return whether a container runs now."""
    return (status.get("state") or {}).get("running") is not None


def waiting_reason(status: Json) -> str:
    """Return a container's waiting reason; empty if it only waits for the pod, or does not wait."""
    reason = str(((status.get("state") or {}).get("waiting") or {}).get("reason") or "")
    return "" if reason in WAITS else reason


def ended(status: Json) -> Json | None:
    """Return the last `terminated` state of a container that does not run now, or None."""
    if is_running(status):
        return None
    state = status.get("state") or {}
    found: Json | None = state.get("terminated") or (status.get("lastState") or {}).get(
        "terminated"
    )
    return found


def crashed(pod: Json) -> Iterator[Json]:
    """Yield the statuses of containers that ended with an error and do not run now."""
    for status in statuses(pod):
        end = ended(status)
        if waiting_reason(status) == CRASH_LOOP or (end and end.get("exitCode")):
            yield status


def waiting(pod: Json) -> Cause | None:
    """Return the cause why containers can't be created, or None; crash loops are ignored."""
    causes = [
        _explain_waiting(reason, str(status["state"]["waiting"].get("message") or ""))
        for status in statuses(pod)
        if (reason := waiting_reason(status)) and reason != CRASH_LOOP
    ]
    return _join_causes(causes)


def _explain_waiting(reason: str, message: str) -> Cause:
    text = f"{shown(reason)}: {shown(message)}"
    if reason in IMAGE:
        fallback = "check the image's name, its registry and the pod's pull secrets"
        return Cause(kind=Kind.IMAGE, text=text, cure=registry_cure(message, fallback))
    fallback = "see the container runtime's log on the node, and what the message names"
    return Cause(kind=Kind.CONTAINER, text=text, cure=cure_of(message, fallback))


def crash(pod: Json, logs: Mapping[str, str]) -> Cause | None:
    """Return a cause if containers of a pod end with an error, else None.

    Args:
        logs: Last lines of the logs, by the container's name.
    """
    return _join_causes(_explain_crash(status, logs) for status in crashed(pod))


def _explain_crash(status: Json, logs: Mapping[str, str]) -> Cause:
    name, end = str(status["name"]), ended(status) or {}
    restarts = status.get("restartCount") or 0
    reason = str(end.get("reason") or "")
    details = [f"exit code {end['exitCode']}"] if "exitCode" in end else []
    details += [shown(reason)] if reason not in ("", "Error") else []
    details += [f"{restarts} restarts"] if restarts else []
    line = telling_line(logs.get(name) or "") or telling_line(str(end.get("message") or ""))
    again = waiting_reason(status) == CRASH_LOOP
    text = f"container {shown(name)} {'ends again and again' if again else 'ended'}"
    if details:
        text += f" ({', '.join(details)})"
    text += f", its last line: {line}" if line else ", and it left no line"
    fallback = f"see `kubectl logs --previous -c {shown(name)}`"
    if reason == OUT_OF_MEMORY:
        fallback = "raise the container's memory limit"
    return Cause(kind=Kind.CRASH, text=text, cure=cure_of(line, fallback))


def waiting_inside(pod: Json) -> list[Json]:
    """Return the statuses of containers that run, and that the pod waits for.

    They are init containers, except sidecars, and containers that are not ready. The API has no
    reason for such a state: only the container's log has.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    inits = status.get("initContainerStatuses") or []
    sidecars = {
        container["name"]
        for container in spec.get("initContainers") or []
        if container.get("restartPolicy") == "Always"
    }
    first = [
        container
        for container in inits
        if is_running(container) and container["name"] not in sidecars
    ]
    rest = status.get("containerStatuses") or []
    return first or [
        container for container in rest if is_running(container) and not container.get("ready")
    ]


def long_wait(pod: Json, around: Around) -> Cause | None:
    """Return a cause if a pod waits for a running container, or for its creation, too long.

    Args:
        around: Logs of the containers, and the time of the reading.
    """
    meta = pod.get("metadata") or {}
    inits = {
        container["name"]
        for container in (pod.get("status") or {}).get("initContainerStatuses") or []
    }
    for status in waiting_inside(pod):
        minutes = around.minutes_since((status["state"]["running"] or {}).get("startedAt"))
        if minutes < PATIENCE:
            continue
        name = shown(status["name"])
        line = telling_line(around.logs.get(str(status["name"])) or "")
        text = f"container {name} has run for {minutes} min and is not ready"
        if status["name"] in inits:
            text = f"waits for its init container {name}, which has run for {minutes} min"
        text += f", its last line: {line}" if line else ""
        namespace, own = (printable(str(meta.get(key)), 253) for key in ("namespace", "name"))
        see = f"see its log (`kubectl logs -n {namespace} {own} -c {name}`)"
        return Cause(kind=Kind.WAIT, text=text, cure=cure_of(line, see))
    minutes = around.minutes_since(
        (pod.get("status") or {}).get("startTime") or meta.get("creationTimestamp")
    )
    if minutes < PATIENCE or any(is_running(status) or ended(status) for status in statuses(pod)):
        return None
    node = printable(str(pod["spec"].get("nodeName")), 120)
    return Cause(
        kind=Kind.WAIT,
        text=f"its containers are not created after {minutes} min, and no component reported why: "
        "its status, its events and its node were read",
        cure=f"see the logs of kubelet and container runtime on node {node}",
    )


def _join_causes(causes: Iterable[Cause]) -> Cause | None:
    """Join the causes of several containers into one cause, without repeating equal texts."""
    different = list(dict.fromkeys(causes))
    if not different:
        return None
    text = "; ".join(dict.fromkeys(cause.text for cause in different))
    return Cause(kind=different[0].kind, text=text, cure=different[0].cure)
