"""Causes why the scheduler does not assign a pod to a node. Pure functions.

The words of the pod's own scheduler come first; what is derived from nodes and pods only adds to
them, and only if the words name that reason. Other components' events are quoted.

Sources of the scheduler's words: kubernetes v1.34.4 pkg/scheduler/framework/types.go
(`FitError.Error`), pkg/scheduler/framework/plugins (`ErrReason…`, `Insufficient`, `untolerated
taint`, `cannot allocate all claims`), pkg/controller/resourceclaim/controller.go.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.resources import DRA_DRIVER
from gpu_cluster.nodes import gpu_holders
from gpu_cluster.nodes.causes.cause import Around, Cause, Kind, shown
from gpu_cluster.nodes.causes.events import Event, newest
from gpu_cluster.nodes.causes.node_fit import NAME, barred
from gpu_cluster.nodes.causes.offers import NAMED, explain_offer
from gpu_cluster.nodes.inspect import blocking_taints, gpus
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.printable import printable, shortened

FAILED = "FailedScheduling"
DEFAULT = "default-scheduler"
QUOTED = 2
"""Maximum number of events of other components that one text quotes."""
KUEUE = "kueue.x-k8s.io/admission"
"""Gate of pods that Kueue has not admitted."""
# Drop the scheduler's sentence about preemption, because it only repeats the number of nodes.
_PREEMPTION = re.compile(r"(?:\bno new claims to deallocate,? *|,? *\bstill not schedulable,? *)?"
                         r"\bpreemption: .*", re.DOTALL)  # fmt: skip
_SMALLER_SHARE = (
    "wait for pods that use these GPUs to end, or request a smaller share of fewer GPUs"
)
_SHARE_AMOUNTS = {
    "CardInsufficientMemory": (HAMI_MEMORY, HAMI_PERCENTAGE),
    "CardInsufficientCore": (HAMI_CORES,),
}
"""Resources of which a pod requests too much, by the word of HAMi's scheduler for it."""
# Phrases in the scheduler's messages, each with the kind of cause and the cure.
_WORDS = (
    (
        r"device class .* does not exist",
        Kind.CLAIM,
        "install the DRA driver of this class, or correct the claim's deviceClassName",
    ),
    (
        r"cannot allocate all claims|resourceclaim in use|resource ?claim",
        Kind.CLAIM,
        "compare the claim with `kubectl get resourceslices -o yaml`, and wait until claims with "
        "these devices are deleted",
    ),
    # The words of HAMi's scheduler (Project-HAMi/HAMi v2.10.0, pkg/device/common/common.go).
    (
        r"ResourceQuotaNotFit",
        Kind.SCHEDULING,
        "raise the namespace's quota of nvidia.com/gpumem or nvidia.com/gpucores, or request less",
    ),
    (
        r"NodeInsufficientDevice",
        Kind.SCHEDULING,
        "request at most as many GPUs as one node has",
    ),
    (
        r"Card(Type|Uuid)Mismatch",
        Kind.AFFINITY,
        "correct the pod's annotations nvidia.com/use-gputype, use-gpuuuid and their opposites",
    ),
    (
        r"NumaNotFit",
        Kind.AFFINITY,
        "remove the pod's annotation nvidia.com/numa-bind, or request fewer GPUs",
    ),
    (
        r"CardMigTopologyInfeasible|CardNotFoundCustomFilterRule",
        Kind.SCHEDULING,
        "request an amount of nvidia.com/gpumem that a free MIG profile of a GPU has",
    ),
    (
        r"^0/(\d+) nodes are available: \1 node unregistered\b",
        Kind.SCHEDULING,
        "see the log of HAMi's device plugin: it registers the GPUs of its node",
    ),
    (
        r"CardInsufficient|CardTimeSlicingExhausted|CardComputeUnitsExhausted"
        r"|ExclusiveDeviceAllocateConflict|AllocatedCardsInsufficientRequest",
        Kind.SCHEDULING,
        _SMALLER_SHARE,
    ),
    (
        r"CardNotHealth|CardCordoned",
        Kind.SCHEDULING,
        "see `gpu-cluster report` for GPUs that are not well, and the node's annotation "
        "hami.io/device-cordon",
    ),
    (
        r"Insufficient \S+/",
        Kind.SCHEDULING,
        "wait for pods that use them to end, or request fewer",
    ),
    (
        r"Insufficient (?!\S+/)",
        Kind.SCHEDULING,
        "lower the pod's requests, or free or add a node",
    ),
    (
        r"Too many pods",
        Kind.SCHEDULING,
        "move pods to other nodes, or raise maxPods of the kubelet",
    ),
    (r"persistentvolumeclaim|persistent volume|PersistentVolume|volume zone|volume node affinity",
     Kind.MOUNT, "see the pod's PersistentVolumeClaims and where their volumes are"),
    (r"untolerated taint|taints? that", Kind.TAINT, "add a toleration to the pod"),
    (r"were unschedulable", Kind.CORDON, "uncordon nodes"),
    (
        r"pod (anti-)?affinity|node affinity/selector|selector|topology spread|requested node name",
        Kind.AFFINITY,
        "correct the pod's nodeSelector, affinity or spread constraints",
    ),
)  # fmt: skip
_NATIVE = re.compile(r"Insufficient ((?:[\w-]+\.)*kubernetes\.io/[\w-]+)")
_BARS = re.compile(r"untolerated taint|were unschedulable|node affinity/selector")
"""Reasons for which `barred` names the nodes' part."""


def unscheduled(pod: Json, around: Around, events: Sequence[Event]) -> Cause | None:
    """Return the cause why a pod is not scheduled; None if the scheduler has reported nothing."""
    if gates := pod["spec"].get("schedulingGates"):
        return _explain_gates(gates, around)
    scheduler = str(pod["spec"].get("schedulerName") or DEFAULT)
    message = _scheduler_message(pod, events, scheduler)
    quotations = _quote_events(events, scheduler, message)
    cause = _explain_claims(pod, around, events, message) or _explain_message(
        pod, around, scheduler, message
    )
    if cause is None and not quotations:
        return None
    quotation = shown(_PREEMPTION.sub("", message).strip()) if message else ""
    if quotation and scheduler != DEFAULT:
        quotation = f"reported by {printable(scheduler, NAME)}: “{quotation}”"
    texts = [quotation, *quotations] if quotation else quotations
    text = f"not scheduled: {'; '.join(texts)}" if texts else ""
    added = [cause.text] if cause and cause.text else []
    kind = cause.kind if cause else Kind.SCHEDULING
    cure = cause.cure if cause else ""
    return Cause(kind=kind, text="; ".join(filter(None, [text, *added])), cure=cure)


def _explain_gates(gates: Sequence[Json], around: Around) -> Cause:
    names = [str(gate.get("name")) for gate in gates]
    text = f"waits for its scheduling gates: {shortened([shown(name) for name in names], NAMED)}"
    if KUEUE not in names:
        cure = "see the controller that set the gate and removes it, such as a queue"
        return Cause(kind=Kind.GATE, text=text, cure=cure)
    cure = "see the pod's Workload of Kueue (`kubectl describe workloads`) and its LocalQueue"
    for workload in around.workloads:
        for condition in (workload.get("status") or {}).get("conditions") or []:
            if condition.get("status") == "False" and condition.get("message"):
                kueue_words = shown(condition["message"]).replace("“", '"').replace("”", '"')
                text += f"; reported by Kueue: “{kueue_words}”"
                cure = "wait for workloads of the ClusterQueue to end, or raise its quota"
    return Cause(kind=Kind.GATE, text=text, cure=cure)


def _scheduler_message(pod: Json, events: Sequence[Event], scheduler: str) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or "no message")
    own_events = (event for event in events if event.reporter in ("", scheduler))
    event = newest(own_events, FAILED)
    return event.trusted_message if event else ""


def _quote_events(events: Sequence[Event], scheduler: str, message: str) -> list[str]:
    """Return the newest words of other components, and the scheduler's under other reasons."""
    newest_events: dict[tuple[str, str], Event] = {}
    for event in events:
        repeats = message and event.reporter in ("", scheduler) and event.reason == FAILED
        if not repeats and event.message and event.message not in message:
            newest_events.setdefault((event.reporter, event.reason), event)
    return [event.quotation for event in list(newest_events.values())[:QUOTED]]


def _explain_message(pod: Json, around: Around, scheduler: str, message: str) -> Cause | None:
    """Return what nodes and pods add to the scheduler's words, with kind and cure."""
    if not message and scheduler != DEFAULT:
        text = f"its scheduler {printable(scheduler, NAME)} has not reported anything"
        cure = f"see that the scheduler {printable(scheduler, NAME)} runs"
        return Cause(kind=Kind.SCHEDULING, text=text, cure=cure)
    remaining_words = message
    if around.nodes:
        # The scheduler also counts names below kubernetes.io, which are no extended resources.
        native = dict.fromkeys(_NATIVE.findall(message), 1)
        for resource, number in {**device_requests(pod), **native}.items():
            insufficient = re.compile(rf"Insufficient {re.escape(resource)}(?!\.?[\w/-])")
            if message and not insufficient.search(message):
                continue
            if cause := _explain_resource(pod, resource, number, around):
                return cause
            # At least one node has the devices, so the pod waits for another reason.
            remaining_words = insufficient.sub("", remaining_words)
        if _BARS.search(remaining_words) and (cause := _explain_barred_nodes(pod, around)):
            return cause
    if not message:
        return None
    known_words = [
        (kind, cure) for pattern, kind, cure in _WORDS if re.search(pattern, remaining_words)
    ]
    if known_words:
        cures = dict.fromkeys(cure for _, cure in known_words[:NAMED])
        cure = "; or ".join(
            cure + _name_share_amounts(pod, remaining_words) if cure == _SMALLER_SHARE else cure
            for cure in cures
        )
        return Cause(kind=known_words[0][0], text="", cure=cure)
    return Cause(kind=Kind.SCHEDULING, text="", cure=_cure_unknown_words(pod, around, scheduler))


def _name_share_amounts(pod: Json, words: str) -> str:
    """Return the names of the amounts that are too large, in brackets; empty if there are none.

    Args:
        words: What the scheduler says, which names the amounts in words of HAMi.

    HAMi's default amounts apply to a pod that requests none of them, so all are then named.
    """
    requested = device_requests(pod)
    names = [
        " or ".join([name for name in amounts if name in requested] or amounts)
        for word, amounts in _SHARE_AMOUNTS.items()
        if word in words
    ]
    return f" ({', '.join(names)})" if names else ""


def _cure_unknown_words(pod: Json, around: Around, scheduler: str) -> str:
    """Return the cure for words that only the scheduler, or its extender, understands."""
    advertised = {name for node in around.nodes for name in node["status"].get("capacity") or {}}
    own_resources = sorted(set(device_requests(pod)) - advertised)
    name = "its extender" if scheduler == DEFAULT else printable(scheduler, NAME)
    cure = f"see the log of {name}: only its rules explain these words"
    if own_resources:
        names = shortened([printable(resource, NAME) for resource in own_resources], NAMED)
        cure += (
            f"; no node advertises {names}, so it counts them: request less if too little is left"
        )
    return cure


def _explain_claims(
    pod: Json, around: Around, events: Sequence[Event], message: str
) -> Cause | None:
    """Return a cause if the pod's ResourceClaims were not created or allocated, else None."""
    claims = pod["spec"].get("resourceClaims") or []
    if not claims:
        return None
    if newest(events, "FailedResourceClaimCreation"):
        cure = "create the ResourceClaimTemplate in the pod's namespace, or correct its name"
        return Cause(kind=Kind.CLAIM, text="its claim can't be created", cure=cure)
    for pattern, kind, cure in _WORDS:
        if kind is Kind.CLAIM and re.search(pattern, message):
            names = shortened([printable(str(claim.get("name")), NAME) for claim in claims], NAMED)
            text = f"claim {names} not allocated"
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


def _explain_barred_nodes(pod: Json, around: Around) -> Cause | None:
    """Return the cause if each node that has the pod's devices bars the pod, else None."""
    names = list(device_requests(pod))
    nodes = [node for node in around.nodes if all(gpus(node, resource=name) for name in names)]
    causes = [barred(pod, node) for node in nodes]
    known_causes = [cause for cause in causes if cause]
    return (
        _explain_bars(" and ".join(names), known_causes)
        if known_causes and len(known_causes) == len(nodes)
        else None
    )


def _explain_resource(pod: Json, resource: str, number: int, around: Around) -> Cause | None:
    """Return the cause if no node has the free devices that a pod requests, else None."""
    resource_name = printable(resource, NAME)
    offering = [node for node in around.nodes if gpus(node, resource=resource)]
    if not offering and resource == GPU and _has_devices(around.slices):
        # A DeviceClass serves the resource, so only the scheduler knows what is free.
        return None
    if not offering:
        return explain_offer(resource, around)
    bars = [(node, barred(pod, node)) for node in offering]
    able = [node for node, cause in bars if cause is None]
    if not able:
        return _explain_bars(resource_name, [cause for _, cause in bars if cause])
    largest = max(able, key=lambda node: gpus(node, resource=resource))
    most = gpus(largest, resource=resource)
    if most < number:
        return _explain_size(largest, resource, number)
    # A pod runs on one node, so only one node's devices and holders matter.
    held_by_node = _count_held(around.pods, resource)
    free = {
        name: max(0, gpus(node, resource=resource) - held_by_node[name].total())
        for node in able
        if (name := node["metadata"]["name"])
    }
    fit = [node for node in able if gpus(node, resource=resource) >= number]
    best = max(fit, key=lambda node: free[node["metadata"]["name"]])
    free_gpus = free[best["metadata"]["name"]]
    if free_gpus >= number:
        # The node that has the devices lacks something else, which the scheduler names.
        return None
    node_name = printable(best["metadata"]["name"], NAME)
    holders = [printable(pod, NAME) for pod in sorted(held_by_node[best["metadata"]["name"]])]
    cure = f"wait until {number - free_gpus} more are free on node {node_name}"
    cure += f", held there by {shortened(holders, NAMED)}" if holders else ""
    spare = max(free.values())
    cure += f"; or request at most {spare} per pod and use several pods" if spare else ""
    closed = len(bars) - len(able)
    more = f"; {closed} more nodes do not take the pod" if closed else ""
    return Cause(
        kind=Kind.FRAGMENTATION if sum(free.values()) >= number else Kind.SCHEDULING,
        text=f"needs {number} {resource_name} on one node; "
        f"node {node_name} has {free_gpus} free{more}",
        cure=cure,
    )


def _explain_size(largest: Json, resource: str, number: int) -> Cause:
    name, most = printable(resource, NAME), gpus(largest, resource=resource)
    text = f"needs {number} {name} on one node; no node has more than {most}"
    cure = f"request at most {most} per pod and use several pods"
    away = gpus(largest, "capacity", resource) - most
    if away > 0:
        node = printable(largest["metadata"]["name"], NAME)
        text += f"; {away} of node {node} not healthy or withdrawn"
        cure += "; or see the device plugin's log and the node's Xid lines"
    return Cause(kind=Kind.SCHEDULING, text=text, cure=cure)


def _has_devices(slices: Sequence[Json]) -> bool:
    """Return whether NVIDIA's DRA driver runs, whose DeviceClass serves GPUs by resource name."""
    return any(resource_slice["spec"]["driver"] == DRA_DRIVER for resource_slice in slices)


def _explain_bars(resource: str, causes: Sequence[Cause]) -> Cause:
    """Return the cause why the pod can't be scheduled to any of the nodes with a resource."""
    counted = Counter(causes).most_common()
    text = ", ".join(
        f"{_format_node_count(count)} {cause.text}" for cause, count in counted[:NAMED]
    )
    if len(counted) == 1:
        text = f"each {counted[0][0].text}" if counted[0][1] > 1 else f"it {counted[0][0].text}"
    cures = dict.fromkeys(cause.cure for cause, _ in counted[:NAMED])
    kind = f" with {resource}" if resource else ""
    return replace(
        counted[0][0],
        text=f"none of {_format_node_count(len(causes))}{kind} takes the pod: {text}",
        cure="; or ".join(cures),
    )


def _count_held(pods: Sequence[Json], resource: str) -> defaultdict[str, Counter[str]]:
    """Return how many devices of a resource each pod holds, by node, then by the pod's name."""
    held_by_node: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        finished = (pod.get("status") or {}).get("phase") in gpu_holders.FINISHED
        if number := 0 if finished else device_requests(pod).get(resource, 0):
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            held_by_node[str(pod["spec"].get("nodeName"))][name] += number
    return held_by_node


def _format_node_count(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
