"""Find the cause why a pod does not run, or was not created. Pure functions.

Sources: kubernetes v1.34.4 pkg/kubelet/events/event.go (reasons of events),
pkg/kubelet/lifecycle/predicate.go and pkg/kubelet/cm/admission/errors.go (admission),
pkg/kubelet/eviction/helpers.go, pkg/kubelet/preemption/preemption.go and
pkg/scheduler/framework/preemption/preemption.go, pkg/controller/controller_utils.go
(`FailedCreate`); k8s.io/apiserver v0.34.4 pkg/admission/plugin/resourcequota/controller.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.causes import containers
from gpu_cluster.nodes.causes.cause import Around, Cause, Kind, shown
from gpu_cluster.nodes.causes.cures import AGAIN, QUOTA, cure_of, refusal_cure
from gpu_cluster.nodes.causes.events import Event, newest, newest_by_uid, newest_first
from gpu_cluster.nodes.causes.offers import explain_plugin
from gpu_cluster.nodes.causes.scheduling import unscheduled
from gpu_rules.printable import printable, shortened

ADMISSION = re.compile(
    r"UnexpectedAdmissionError|OutOf\S+|Node(Affinity|Name|Ports|UnschedulableTaint)|"
    r"TopologyAffinityError|TaintToleration|SMTAlignmentError|Pod\w*NotSupported|PodOS\w+|"
    r"InvalidNodeInfo|UnknownReason|UnexpectedPredicateFailureType|NodeShutdown|Prohibited\w+"
)
"""Values of `status.reason` of pods that a kubelet did not admit."""
_AVAILABLE = re.compile(r"Requested: ?\d+, Available: ?([1-9]\d*)")
"""Devices that a kubelet has left (kubernetes v1.34.4, pkg/kubelet/cm/devicemanager/manager.go)."""
# Reasons of events that keep a scheduled pod's containers from starting, with the kind of cause.
_BEFORE_START = {
    "FailedCreatePodSandBox": Kind.SANDBOX,
    "FailedPodSandBoxStatus": Kind.SANDBOX,
    "NetworkNotReady": Kind.SANDBOX,
    "FailedMount": Kind.MOUNT,
    "FailedAttachVolume": Kind.MOUNT,
    "FailedMapVolume": Kind.MOUNT,
    "FailedPrepareDynamicResources": Kind.CLAIM,
    "FailedCreatePodContainer": Kind.CONTAINER,
}
_DISRUPTED = {
    "PreemptionByScheduler": Kind.PREEMPTION,
    "EvictionByEvictionAPI": Kind.EVICTION,
    "DeletionByTaintManager": Kind.EVICTION,
    "DeletionByDeviceTaintManager": Kind.EVICTION,
    "DeletionByPodGC": Kind.EVICTION,
    "TerminationByKubelet": Kind.EVICTION,
}
"""Reasons of the condition `DisruptionTarget` (k8s.io/api v0.34.4 core/v1/types.go)."""
CREATE = "FailedCreate"
"""Reason of events about pods that a controller can't create."""


def cause_of(pod: Json, around: Around = Around()) -> Cause | None:  # noqa: B008 -- it is frozen
    """Return the cause why a pod does not run; None if it runs, has succeeded or just starts.

    A pod that the kubelet preempted has a cause, even if its program ended without an error.

    Args:
        around: Events of the pod, and other objects of the cluster.
    """
    status = pod.get("status") or {}
    uid = str(_pod_metadata(pod).get("uid") or "")
    events = newest_first(around.events, uid, trusted=around.trusted_events)
    if status.get("phase") == "Succeeded":
        return _explain_preemption(events)
    if (
        cause := _explain_disruption(pod, events)
        or _explain_rejection(pod, around)
        or _too_late(status)
    ):
        return cause
    if _pod_metadata(pod).get("deletionTimestamp"):
        return _explain_deletion(pod)
    if not pod["spec"].get("nodeName"):
        return unscheduled(pod, around, events)
    return (
        _explain_node_condition(pod, around, "Unknown")
        or containers.waiting(pod)
        or _ended_by_probe(pod, events)
        or containers.crash(pod, around.logs)
        or _explain_node_condition(pod, around, "False")
        or _explain_start(pod, around, events)
        or _explain_readiness(pod, events)
        or containers.long_wait(pod, around)
    )


def _pod_metadata(pod: Json) -> Json:
    return pod.get("metadata") or {}


def _explain_preemption(events: Sequence[Event]) -> Cause | None:
    """Return a cause if the kubelet preempted a pod whose program then ended without an error."""
    event = newest(events, "Preempting")
    if event is None:
        return None
    text = f"preempted by the kubelet, {event.quotation}"
    return Cause(kind=Kind.PREEMPTION, text=text, cure=AGAIN)


def _explain_disruption(pod: Json, events: Sequence[Event]) -> Cause | None:
    """Return a cause if the pod was evicted or preempted, else None."""
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason == "Evicted":
        cure = f"free the resource on the node, or request what the pod uses; {AGAIN}"
        text = f"evicted by the kubelet: {shown(message)}"
        return Cause(kind=Kind.EVICTION, text=text, cure=cure_of(message, cure))
    if reason == "Preempting":
        return Cause(kind=Kind.PREEMPTION, text=f"preempted: {shown(message)}", cure=AGAIN)
    for condition in status.get("conditions") or []:
        why = str(condition.get("reason") or "")
        if condition["type"] != "DisruptionTarget" or condition["status"] != "True":
            continue
        kind = _DISRUPTED.get(why, Kind.EVICTION)
        said = newest(events, "Preempted") if kind is Kind.PREEMPTION else None
        text = said.quotation if said else shown(condition.get("message") or message)
        word = "preempted" if kind is Kind.PREEMPTION else "evicted"
        cure = f"give it a higher PriorityClass; {AGAIN}" if word == "preempted" else AGAIN
        return Cause(kind=kind, text=f"{word} ({shown(why)}): {text}", cure=cure)
    return None


def _explain_rejection(pod: Json, around: Around) -> Cause | None:
    """Return a cause if the kubelet did not admit the pod, else None.

    A controller makes the same pod again, so a new pod alone never helps.
    """
    status, node = pod.get("status") or {}, str(pod["spec"].get("nodeName") or "")
    reason = str(status.get("reason") or "")
    if status.get("phase") != "Failed" or not ADMISSION.fullmatch(reason):
        return None
    message = str(status.get("message") or "")
    text = f"not admitted by the kubelet, {shown(reason)}: {shown(message)}"
    where = printable(node, 120)
    if reason in ("UnexpectedAdmissionError", "UnknownReason") or reason.startswith("OutOf"):
        if plugin := explain_plugin(node, around):
            text, cure = f"{text}; {plugin.text}", plugin.cure
            return Cause(kind=Kind.ADMISSION, text=text, cure=cure)
        fallback = f"see the log of the device plugin's pod on node {where}; {AGAIN}"
        if left := _AVAILABLE.search(message):
            fallback = f"request at most {left[1]}, and let the scheduler choose the node"
    elif "Affinity" in reason:
        fallback = f"correct the labels of node {where}, or the pod's nodeSelector; {AGAIN}"
    else:
        fallback = f"see node {where} and its kubelet; {AGAIN}"
    return Cause(kind=Kind.ADMISSION, text=text, cure=cure_of(message, fallback))


def _too_late(status: Json) -> Cause | None:
    """Return a cause if the pod ran longer than its `activeDeadlineSeconds`, else None."""
    if status.get("reason") != "DeadlineExceeded":
        return None
    return Cause(
        kind=Kind.DEADLINE,
        text=f"ended by the kubelet, DeadlineExceeded: {shown(status.get('message'))}",
        cure="raise activeDeadlineSeconds, or see the pod's events for what it waited",
    )


def _explain_node_condition(pod: Json, around: Around, ready: str) -> Cause | None:
    """Return a cause if the condition Ready of the pod's node has the status `ready`, else None."""
    name = pod["spec"]["nodeName"]
    for node in around.nodes:
        if node["metadata"]["name"] != name:
            continue
        for condition in (node.get("status") or {}).get("conditions") or []:
            if condition["type"] == "Ready" and condition["status"] == ready:
                said = shown(condition.get("message"))
                text = f"its node {printable(name, 120)} is not ready: {said}"
                return Cause(
                    kind=Kind.NODE, text=text, cure=cure_of(said, "see the node's kubelet")
                )
    return None


def _explain_deletion(pod: Json) -> Cause:
    held = _pod_metadata(pod).get("finalizers") or []
    names = shortened([printable(str(name), 120) for name in held], 3)
    return Cause(
        kind=Kind.DELETION,
        text=f"is being deleted{f' and waits for its finalizers: {names}' if held else ''}",
        cure="see the controllers of the finalizers" if held else "see the node's kubelet",
    )


def _explain_start(pod: Json, around: Around, events: Sequence[Event]) -> Cause | None:
    """Return the newest event that keeps a pod's containers from being created, or None.

    If a container of the pod has run since, the event is out of date and is ignored.
    """
    statuses = containers.statuses(pod)
    if any(containers.is_running(status) or containers.ended(status) for status in statuses):
        return None
    event = newest(events, *_BEFORE_START)
    if event is None:
        return None
    kind, node = _BEFORE_START[event.reason], printable(str(pod["spec"]["nodeName"]), 120)
    text = f"{event.reason}, {event.quotation}"
    if kind is Kind.CLAIM and (unreserved := _unreserved_claims(pod, around)):
        text += f"; claim {unreserved} is not reserved for the pod: no scheduler placed it"
        cure = "leave spec.nodeName out, and let the scheduler place the pod (use a nodeSelector)"
        return Cause(kind=kind, text=text, cure=cure)
    if kind is Kind.CLAIM:
        cure = f"see the pod of the DRA driver on node {node}, and its log"
    elif kind is Kind.MOUNT:
        cure = "create the volume's source in the pod's namespace, or correct its name"
    else:
        cure = f"see the container runtime's log and the pods of the network plugin on node {node}"
        if runtime := pod["spec"].get("runtimeClassName"):
            cure += f", and that it has the runtime of RuntimeClass {printable(runtime, 120)}"
    return Cause(kind=kind, text=text, cure=cure_of(event.trusted_message, cure))


def _unreserved_claims(pod: Json, around: Around) -> str:
    """Return the names of the pod's claims that exist and are not reserved for it; else empty."""
    made = (pod.get("status") or {}).get("resourceClaimStatuses") or []
    names = {claim.get("resourceClaimName") for claim in made}
    names |= {claim.get("resourceClaimName") for claim in pod["spec"].get("resourceClaims") or []}
    free = [
        printable(claim["metadata"]["name"], 120)
        for claim in around.claims
        if claim["metadata"]["name"] in names
        and all(
            user.get("uid") != _pod_metadata(pod).get("uid")
            for user in (claim.get("status") or {}).get("reservedFor") or []
        )
    ]
    return shortened(free, 3) if free else ""


def _ended_by_probe(pod: Json, events: Sequence[Event]) -> Cause | None:
    """Return a cause if a probe ended the last run of a container that does not run, else None."""
    for status in containers.crashed(pod):
        probe = _ending_probe(status, events)
        if not probe:
            continue
        failures = (
            failure for failure in events if failure.message.lower().startswith(f"{probe} probe ")
        )
        event = newest(failures, "Unhealthy")
        said = f", {event.quotation}" if event else ""
        return Cause(
            kind=Kind.PROBE,
            text=f"container {shown(status['name'])} is ended by its probe again and again{said}",
            cure="see the container's log; correct the probe if the container only needs longer",
        )
    return None


def _ending_probe(status: Json, events: Sequence[Event]) -> str:
    """Return which probe ended the last run of a container, `liveness` or `startup`, or "".

    The kubelet reports an event `Killing` then (pkg/kubelet/kuberuntime/kuberuntime_manager.go).
    After 25 such events of a pod it reports only one in five minutes (k8s.io/client-go v0.36.3,
    tools/record/events_cache.go). So if no event reports the start of the last run, the newest
    event about an earlier run counts.
    """
    name = str(status["name"])
    started = str((containers.ended(status) or {}).get("startedAt") or "")
    part = f"spec.containers{{{name}}}"
    start = newest((event for event in events if event.part == part), "Started")
    pattern = rf"Container {re.escape(name)} failed (liveness|startup) probe"
    for event in events:
        killed = re.match(pattern, event.message) if event.reason == "Killing" else None
        if killed and (event.at >= started or start is None or start.at < started):
            return killed[1]
    return ""


def _explain_readiness(pod: Json, events: Sequence[Event]) -> Cause | None:
    """Return a cause if the pod's containers run but are not ready, else None."""
    running = [status for status in containers.statuses(pod) if containers.is_running(status)]
    if all(status.get("ready") for status in running):
        return None
    event = newest(events, "Unhealthy")
    if event is None:
        return None
    cure = "see the container's log"
    return Cause(kind=Kind.PROBE, text=f"is not ready, {event.quotation}", cure=cure)


def cause_of_missing(name: str, around: Around) -> Cause | None:
    """Return the cause why a pod was not created, or None.

    Args:
        name: Name of the pod, or of the controller that should create it.
        around: Controllers of the namespace, its events and its quotas.
    """
    refusals = refusals_of(around.events, trusted=around.trusted_events)
    for item in around.controllers:
        own = str(item["metadata"]["name"])
        same = own == name or name.startswith(f"{own}-") or own.startswith(f"{name}-")
        if same and (cause := explain_refusal(item, refusals)):
            used = _used_up_quotas(around.quotas) if cause.kind is Kind.ADMISSION else None
            if used is None:
                return cause
            return Cause(kind=Kind.QUOTA, text=f"{cause.text}; {used.text}", cure=used.cure)
    return _used_up_quotas(around.quotas)


def refusals_of(events: Iterable[Json], *, trusted: bool) -> Mapping[str, Event]:
    """Return the newest event about pods that a controller can't create, by the controller's UID.

    Args:
        events: Events of one namespace.
        trusted: Whether only people whom the stack trusts can write the events.
    """
    return newest_by_uid(newest_first(events, trusted=trusted), CREATE)


def explain_refusal(item: Json, refusals: Mapping[str, Event]) -> Cause | None:
    """Return the cause why a controller can't create its pods, or None.

    Deployments and ReplicaSets keep the API server's words in the condition `ReplicaFailure`. For
    other controllers only an event has them, which is quoted, and counts by the controller's UID.

    Args:
        item: The controller, with its kind.
        refusals: Events from `refusals_of` of its namespace.
    """
    meta = item["metadata"]
    place = f"{item.get('kind')} {printable(meta['name'], 120)}"
    for condition in (item.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            message = str(condition.get("message") or "")
            kind = Kind.QUOTA if re.search(QUOTA, message) else Kind.ADMISSION
            text = f"{place} can't create it: {shown(message)}"
            return Cause(kind=kind, text=text, cure=refusal_cure(message))
    event = refusals.get(str(meta.get("uid") or ""))
    if event is None:
        return None
    cure = (
        f"compare the template of {place} with the quotas, the Pod Security level and the "
        "policies of its namespace"
    )
    if event.is_trusted:
        cure = refusal_cure(event.message)
    kind = Kind.QUOTA if re.search(QUOTA, event.trusted_message) else Kind.ADMISSION
    return Cause(kind=kind, text=f"{place} can't create it, {event.quotation}", cure=cure)


def _used_up_quotas(quotas: Sequence[Json]) -> Cause | None:
    """Return a cause that names the used-up ResourceQuotas, or None."""
    full = [
        f"{printable(quota['metadata']['name'], 120)} ({printable(name, 120)} {shown(used)} of "
        f"{shown(hard)})"
        for quota in quotas
        for name, hard in ((quota.get("status") or {}).get("hard") or {}).items()
        if (used := ((quota.get("status") or {}).get("used") or {}).get(name)) == hard
    ]
    if not full:
        return None
    return Cause(
        kind=Kind.QUOTA,
        text=f"ResourceQuotas of its namespace are used up: {shortened(full, 3)}",
        cure="raise the ResourceQuota, or end pods that use it up",
    )
