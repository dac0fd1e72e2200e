"""Causes in the statuses of a pod's containers. Pure functions.

Sources: kubernetes v1.34.4, pkg/kubelet/images/types.go (image pulls),
pkg/kubelet/kuberuntime/kuberuntime_container.go and pkg/kubelet/container/sync_result.go (creation
and start of containers).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.causes.cause import Cause, Kind, last_line, shown
from gpu_cluster.nodes.causes.cures import cure_of, registry_cure

IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
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
    terminated: Json | None = state.get("terminated") or (status.get("lastState") or {}).get(
        "terminated"
    )
    return terminated


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
    fallback = "correct the pod's specification, or what it refers to"
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
    line = last_line(logs.get(name) or "") or last_line(str(end.get("message") or ""))
    again = waiting_reason(status) == CRASH_LOOP
    text = f"container {shown(name)} {'ends again and again' if again else 'ended'}"
    if details:
        text += f" ({', '.join(details)})"
    text += f", its last line: {line}" if line else ", and it left no line"
    fallback = f"see `kubectl logs --previous -c {shown(name)}`"
    if reason == OUT_OF_MEMORY:
        fallback = "raise the container's memory limit"
    return Cause(kind=Kind.CRASH, text=text, cure=cure_of(line, fallback))


def _join_causes(causes: Iterable[Cause]) -> Cause | None:
    """Join the causes of several containers into one cause, without repeating equal texts."""
    different = list(dict.fromkeys(causes))
    if not different:
        return None
    text = "; ".join(dict.fromkeys(cause.text for cause in different))
    return Cause(kind=different[0].kind, text=text, cure=different[0].cure)
