"""Causes why the scheduler does not assign a pod to a node. Pure functions.

Sources of the scheduler's words: kubernetes v1.34.4 pkg/scheduler/framework/types.go
(`FitError.Error`), pkg/scheduler/framework/plugins (`ErrReason…`, `Insufficient`, `untolerated
taint`, `cannot allocate all claims`), pkg/controller/resourceclaim/controller.go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from gpu_cluster.base.nearness import LIKE_ENOUGH, nearest, similarity
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.nodes import gpu_holders
from gpu_cluster.nodes.causes.cause import Around, Cause, Kind, shown
from gpu_cluster.nodes.causes.events import Event, newest
from gpu_cluster.nodes.causes.node_fit import NAME, barred
from gpu_cluster.nodes.inspect import blocking_taints, gpus
from gpu_rules.kube.gpu_resources import GPU
from gpu_rules.kube.names import is_extended_resource
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.printable import printable, shortened

FAILED = "FailedScheduling"
DEFAULT = "default-scheduler"
NAMED = 3
"""Maximum number of GPU holders or nodes that the text of a cause names."""
# Drop the scheduler's sentence about preemption, because it only repeats the number of nodes.
_PREEMPTION = re.compile(r"(?:\bno new claims to deallocate,? *|,? *\bstill not schedulable,? *)?"
                         r"\bpreemption: .*", re.DOTALL)  # fmt: skip
# Phrases of the scheduler, each with kind of cause and cure; the first matching phrase is used.
_WORDS = (
    (
        r"device class .* does not exist",
        Kind.CLAIM,
        "install the DRA driver of this class, or correct the claim's deviceClassName",
    ),
    (
        r"cannot allocate all claims|resourceclaim in use|resource ?claim",
        Kind.CLAIM,
        "compare the claim with `kubectl get resourceslices -o yaml`; wait until "
        "claims with these devices are deleted, or delete them",
    ),
    (
        r"Insufficient \S+/",
        Kind.SCHEDULING,
        "wait for pods that use them to end, delete such pods, or request fewer",
    ),
    (r"Insufficient ", Kind.SCHEDULING, "lower the pod's requests, or free or add a node"),
    (r"persistentvolumeclaim|persistent volume|PersistentVolume|volume zone",
     Kind.MOUNT, "see the pod's PersistentVolumeClaims"),
    (r"untolerated taint|taints? that", Kind.TAINT, "add a toleration to the pod"),
    (r"were unschedulable", Kind.CORDON, "uncordon nodes"),
    (
        r"affinity|selector|topology spread|requested node name",
        Kind.AFFINITY,
        "correct the pod's nodeSelector, affinity or spread constraints",
    ),
)  # fmt: skip


def unscheduled(pod: Json, around: Around, events: Sequence[Event]) -> Cause | None:
    """Return the cause why a pod is not scheduled; None if the scheduler has reported nothing."""
    if gates := pod["spec"].get("schedulingGates"):
        names = shortened([shown(gate.get("name")) for gate in gates], NAMED)
        cure = "see the controller that set the gate and removes it, such as a queue"
        return Cause(kind=Kind.GATE, text=f"waits for its scheduling gates: {names}", cure=cure)
    message = _scheduler_message(pod, events)
    if cause := _explain_claims(pod, around, events, message):
        return cause
    if around.nodes and (cause := _explain_devices(pod, around)):
        return cause
    if message:
        return _explain_message(message)
    if event := newest(events, FAILED):
        return Cause(kind=Kind.SCHEDULING, text=f"not scheduled, {event.quotation}")
    name = pod["spec"].get("schedulerName") or DEFAULT
    if name == DEFAULT:
        return None
    text = f"its scheduler {printable(str(name), NAME)} has not reported anything"
    return Cause(kind=Kind.SCHEDULING, text=text, cure="see that this scheduler runs")


def _scheduler_message(pod: Json, events: Sequence[Event]) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or "no message")
    event = newest(events, FAILED)
    return event.trusted_message if event else ""


def _explain_message(message: str) -> Cause:
    text = f"not scheduled: {shown(_PREEMPTION.sub('', message).strip())}"
    for pattern, kind, cure in _WORDS:
        if re.search(pattern, message):
            return Cause(kind=kind, text=text, cure=cure)
    return Cause(kind=Kind.SCHEDULING, text=text)


def _explain_claims(
    pod: Json, around: Around, events: Sequence[Event], message: str
) -> Cause | None:
    """Return a cause if the pod's ResourceClaims were not created or allocated, else None."""
    claims = pod["spec"].get("resourceClaims") or []
    if not claims:
        return None
    if event := newest(events, "FailedResourceClaimCreation"):
        return Cause(
            kind=Kind.CLAIM,
            text=f"its claim can't be created, {event.quotation}",
            cure="create the ResourceClaimTemplate in the pod's namespace, or correct its name",
        )
    if message and (worded := _explain_message(message)).kind is Kind.CLAIM:
        names = shortened([printable(str(claim.get("name")), NAME) for claim in claims], NAMED)
        text = worded.text.removeprefix("not scheduled: ")
        text, cure = f"claim {names} not allocated: {text}", worded.cure
        if tainted := _tainted_devices(around.slices):
            text += f"; {len(tainted)} devices are tainted: {shortened(tainted, NAMED)}"
            cure = f"{cure}; see the nodes' Xid lines and the log of the DRA driver's pods"
        return Cause(kind=Kind.CLAIM, text=text, cure=cure)
    return None


def _tainted_devices(slices: Sequence[Json]) -> list[str]:
    """Return the devices with a taint that keeps the scheduler from allocating them.

    Only the newest generation of each pool counts (k8s.io/api v0.34.4 resource/v1/types.go,
    ResourcePool).
    """
    newest: dict[tuple[str, str], int] = {}
    for spec in (resource_slice["spec"] for resource_slice in slices):
        key, generation = (spec["driver"], spec["pool"]["name"]), spec["pool"]["generation"]
        newest[key] = max(newest.get(key, 0), generation)
    return [
        printable(f"{device['name']} of {spec['pool']['name']} ({', '.join(taints)})", NAME)
        for spec in (resource_slice["spec"] for resource_slice in slices)
        if spec["pool"]["generation"] == newest[spec["driver"], spec["pool"]["name"]]
        for device in spec.get("devices") or []
        if (taints := blocking_taints(device))
    ]


def _explain_devices(pod: Json, around: Around) -> Cause | None:
    """Return a cause if no node has the free devices that the pod requests, else None."""
    for resource, number in device_requests(pod).items():
        if cause := _explain_resource(pod, resource, number, around):
            return cause
    return None


def _explain_resource(pod: Json, resource: str, number: int, around: Around) -> Cause | None:
    name = printable(resource, NAME)
    advertised = [node for node in around.nodes if gpus(node, "capacity", resource)]
    if not advertised and resource == GPU and _has_devices(around.slices):
        # A DeviceClass serves the resource, so only the scheduler knows what is free.
        return None
    if not advertised:
        return _explain_missing_resource(resource, around.nodes)
    bars = [(node, barred(pod, node)) for node in advertised]
    able = [node for node, cause in bars if cause is None]
    if not able:
        return _all_barred(name, [cause for _, cause in bars if cause])
    free = _count_free_devices(able, around.pods, resource)
    if max(free) >= number:
        # The node that has the devices lacks something else, which the scheduler names.
        return None
    total, largest = sum(free), max(gpus(node, resource=resource) for node in able)
    if total >= number:
        most = largest if largest < number else max(free)
        limit = f"; no node has more than {largest}" if largest < number else ""
        return Cause(
            kind=Kind.FRAGMENTATION,
            text=f"needs {number} {name} on one node{limit}; {total} free, {_format_free(free)}",
            cure=f"request at most {most} per pod and use several pods"
            + ("" if limit else f", or end or move pods until one node has {number} free"),
        )
    closed = len(bars) - len(able)
    more = f"; {closed} more nodes do not take the pod" if closed else ""
    text = f"needs {number} {name}, {total} free on {_format_node_count(len(able))}{more}"
    cure = "wait for pods that use them to end, delete such pods, or request fewer"
    if holders := _format_holders(able, around.pods, resource):
        cure = f"wait for pods that use them to end, or delete them: {holders}; or request fewer"
    elif not any(gpus(node, resource=resource) for node in able):
        text += ": none is healthy"
        cure = "see the device plugin's log and the nodes' Xid lines"
    return Cause(kind=Kind.SCHEDULING, text=text, cure=cure)


def _has_devices(slices: Sequence[Json]) -> bool:
    """Return whether NVIDIA's DRA driver runs, whose DeviceClass serves GPUs by resource name."""
    return any(resource_slice["spec"]["driver"] == DRA_DRIVER for resource_slice in slices)


def _explain_missing_resource(resource: str, nodes: Sequence[Json]) -> Cause:
    """Return the cause for a resource that no node has: a wrong name, or no device plugin."""
    resource_names = sorted(
        {
            name
            for node in nodes
            for name in (node.get("status") or {}).get("capacity") or {}
            if is_extended_resource(name)
        }
    )
    name = printable(resource, NAME)
    text = f"requests {name}, which no node has"
    if (
        resource_names
        and similarity(resource, near := nearest(resource, resource_names)) >= LIKE_ENOUGH
    ):
        right = printable(near, NAME)
        text, cure = f"{text}; nodes have {right}", f"correct the name to {right}"
        return Cause(kind=Kind.RESOURCE_NAME, text=text, cure=cure)
    cure = "see that the device plugin for it runs on the nodes, or correct the name"
    return Cause(kind=Kind.RESOURCE_NAME, text=text, cure=cure)


def _all_barred(resource: str, causes: Sequence[Cause]) -> Cause:
    """Return the cause why the pod can't be scheduled to any of the nodes with a resource."""
    counted = Counter(causes).most_common()
    text = ", ".join(
        f"{_format_node_count(count)} {cause.text}" for cause, count in counted[:NAMED]
    )
    if len(counted) == 1:
        text = f"each {counted[0][0].text}" if counted[0][1] > 1 else f"it {counted[0][0].text}"
    first = counted[0][0]
    cures = dict.fromkeys(cause.cure for cause, _ in counted[:NAMED])
    return Cause(
        kind=first.kind,
        text=f"none of {_format_node_count(len(causes))} with {resource} takes the pod: {text}",
        cure="; or ".join(cures),
    )


def _count_free_devices(nodes: Sequence[Json], pods: Sequence[Json], resource: str) -> list[int]:
    """Return the number of free devices of a resource on each node."""
    used: Counter[str] = Counter()
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in gpu_holders.FINISHED:
            used[node] += device_requests(pod).get(resource, 0)
    return [
        max(0, gpus(node, resource=resource) - used[node["metadata"]["name"]]) for node in nodes
    ]


def _format_holders(nodes: Sequence[Json], pods: Sequence[Json], resource: str) -> str:
    names = {node["metadata"]["name"] for node in nodes}
    pods_of_nodes = [pod for pod in pods if pod["spec"].get("nodeName") in names]
    holding = [
        holder for holder in gpu_holders.holders_of(pods_of_nodes, [resource]) if holder.amounts
    ]
    return shortened([printable(holder.name, NAME) for holder in holding], NAMED)


def _format_free(free: Sequence[int]) -> str:
    """Return text that groups nodes by their number of free devices: `4 nodes with 4 each`."""
    counted = sorted(Counter(number for number in free if number).items(), reverse=True)
    groups = [
        f"{_format_node_count(count)} with {number}{' each' if count > 1 else ''}"
        for number, count in counted
    ]
    return shortened(groups, NAMED)


def _format_node_count(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
