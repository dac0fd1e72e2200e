"""Decide what HAMi's webhook, scheduler and device plugin answer. All functions are pure.

Source: Project-HAMi/HAMi v2.10.0 (4707fb02): pkg/scheduler/webhook.go (Handle, fitResourceQuota),
pkg/device/nvidia/device.go (MutateAdmission, GenerateResourceRequests, Fit), pkg/device/quota.go
(FitQuota), pkg/device/initContainer.go (CollapseInitContainerUsage), pkg/scheduler/score.go
(fitInDevices, recordFilteringFailures) and pkg/scheduler/policy. GPUs are in the mode `hami-core`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from gpu_cluster_lab.simulator.api import Json
from gpu_cluster_lab.simulator.controller.devices import PRODUCT, Device
from gpu_rules.kube.gpu_resources import GPU, HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE
from gpu_rules.kube.node_selectors import is_node_selected
from gpu_rules.kube.quantity import read_milli
from gpu_rules.kube.taints import NodeTaint, tolerates

SCHEDULER = "hami-scheduler"
REGISTERED = "hami.io/node-nvidia-register"
CORDONED = "hami.io/device-cordon"
ASSIGNED_NODE = "hami.io/vgpu-node"
ALLOCATED = "hami.io/vgpu-devices-allocated"
PHASE = "hami.io/bind-phase"
POLICY = "hami.io/gpu-scheduler-policy"
NODE_POLICY = "hami.io/node-scheduler-policy"
IGNORED = "hami.io/webhook"
VENDOR = "NVIDIA"
#: Memory of an A100 with 80 GiB in MiB, as NVML reports it.
MEMORY_MIB = 81920
CORES = 100
#: Value that stands for "no percentage of memory" in HAMi.
UNSET = 101
_INT32 = 2**31 - 1


@dataclass
class Gpu:
    """A GPU that HAMi's device plugin has registered, and what pods use of it."""

    uuid: str
    index: int
    count: int
    memory: int
    cores: int
    model: str
    numa: int = 0
    healthy: bool = True
    used: int = 0
    used_memory: int = 0
    used_cores: int = 0


@dataclass(frozen=True)
class Request:
    """Request of one container: a number of GPUs, and a share of each of them."""

    number: int = 0
    memory: int = 0
    percentage: int = UNSET
    cores: int = 0


@dataclass(frozen=True)
class Share:
    """A share of a GPU that one container got."""

    uuid: str
    memory: int
    cores: int


#: Shares of each container of a pod, init containers first.
Shares = tuple[tuple[Share, ...], ...]


@dataclass
class Quota:
    """Limits and usage of one namespace, by resource; a resource without a limit is absent."""

    limits: Mapping[str, int] = field(default_factory=dict)
    memory: int = 0
    cores: int = 0

    def fits(self, memory: int, cores: int) -> bool:
        """Return whether the namespace may use so much more."""
        more = {HAMI_MEMORY: self.memory + memory, HAMI_CORES: self.cores + cores}
        return all(more[name] <= limit for name, limit in self.limits.items())


@dataclass(frozen=True)
class Placement:
    """Decision of the scheduler about a pod.

    Attributes:
        node: The pod's node; empty if it fits nowhere.
        shares: Shares of GPUs that its containers get there.
        reasons: Why the pod does not fit, by node.
        asked: Nodes that kube-scheduler's own filters let through.
    """

    node: str = ""
    shares: Shares = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[str, ...] = ()


class Denied(Exception):
    """Error: the webhook refuses a pod; the message is HAMi's."""


def registration(gpus: Iterable[Device], healthy: Iterable[Device], nvidia: Json) -> str:
    """Return the annotation with which the device plugin registers the GPUs of its node.

    Args:
        gpus: GPUs that the plugin sees.
        healthy: GPUs of these that are healthy.
        nvidia: Section `nvidia` of HAMi's device configuration.
    """
    well = {gpu.uuid for gpu in healthy}
    entries = []
    for gpu in gpus:
        entry = {
            "id": gpu.uuid,
            "index": gpu.index,
            "count": int(nvidia.get("deviceSplitCount", 1)),
            "devmem": int(MEMORY_MIB * float(nvidia.get("deviceMemoryScaling", 1))),
            "devcore": int(CORES * float(nvidia.get("deviceCoreScaling", 1))),
            "type": PRODUCT,
            "mode": "hami-core",
            "health": gpu.uuid in well,
        }
        entries.append({key: value for key, value in entry.items() if value})
    return json.dumps(entries)


def read_gpus(node: Json) -> list[Gpu]:
    """Return the GPUs that a Node's annotation registers; empty if there is none."""
    text = (node["metadata"].get("annotations") or {}).get(REGISTERED)
    return [
        Gpu(
            uuid=entry.get("id", ""),
            index=entry.get("index", 0),
            count=entry.get("count", 0),
            memory=entry.get("devmem", 0),
            cores=entry.get("devcore", 0),
            model=entry.get("type", ""),
            numa=entry.get("numa", 0),
            healthy=entry.get("health", False),
        )
        for entry in (json.loads(text) if text else ())
    ]


def _requested_amount(container: Json, name: str) -> int | None:
    """Return the amount of a resource in a container's limits, or else in its requests."""
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        amounts = resources.get(kind) or {}
        if name in amounts:
            milli = read_milli(amounts[name])
            return -(-milli // 1000)
    return None


def request_of(container: Json) -> Request:
    """Return what a container requests; a request that HAMi rejects is no request."""
    number = _requested_amount(container, GPU)
    if number is None:
        return Request()
    memory = _requested_amount(container, HAMI_MEMORY) or 0
    if not 0 <= memory <= _INT32:
        return Request()
    percentage = min(_requested_amount(container, HAMI_PERCENTAGE) or UNSET, UNSET)
    if percentage != UNSET:
        percentage = min(percentage, 100) if percentage > 0 else UNSET
    elif (_requested_amount(container, HAMI_PERCENTAGE) or 0) > 100:
        percentage = 100
    if percentage == UNSET and memory == 0:
        percentage = 100
    return Request(number, memory, percentage, _requested_amount(container, HAMI_CORES) or 0)


def _containers_in_order(pod: Json) -> list[Json]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def admit(pod: Json, runtime_class: str, quota: Quota) -> Json:
    """Return a pod as HAMi's webhook changes it.

    Args:
        pod: Pod that somebody creates.
        runtime_class: RuntimeClass in HAMi's configuration; may be empty.
        quota: Limits and usage of the pod's namespace.

    Raises:
        Denied: HAMi refuses the pod.
    """
    pod = deepcopy(pod)
    spec = pod["spec"]
    if spec.get("schedulerName", "") not in ("", "default-scheduler", SCHEDULER):
        return pod
    sees_gpus = [_complete_limits(container) for container in _containers_in_order(pod)]
    if any(sees_gpus):
        if runtime_class and not spec.get("runtimeClassName"):
            spec["runtimeClassName"] = runtime_class
        for container in _containers_in_order(pod):
            if (container.get("securityContext") or {}).get("privileged"):
                raise Denied(f"container {container['name']} is privileged")
        spec["schedulerName"] = SCHEDULER
        if spec.get("nodeName"):
            raise Denied("pod has node assigned")
    of_init = [request_of(init_container) for init_container in spec.get("initContainers") or ()]
    of_app = [request_of(each) for each in spec["containers"]]
    memory = max(
        sum(app_request.memory * app_request.number for app_request in of_app),
        max((init_request.memory * init_request.number for init_request in of_init), default=0),
    )
    cores = max(
        sum(app_request.cores * app_request.number for app_request in of_app),
        max((init_request.cores * init_request.number for init_request in of_init), default=0),
    )
    if (memory or cores) and not quota.fits(memory, cores):
        raise Denied("exceeding resource quota")
    return pod


def _complete_limits(container: Json) -> bool:
    """Complete a container's limits in place; return whether it requests GPUs from HAMi."""
    percentage = _requested_amount(container, HAMI_PERCENTAGE)
    if percentage is not None and not 0 <= percentage <= 100:
        raise Denied(
            f"invalid {HAMI_PERCENTAGE} value {percentage} in container {container['name']}: must "
            "be an integer between 0 and 100"
        )
    limits = (container.get("resources") or {}).get("limits") or {}
    asks = GPU in limits
    if not asks and any(name in limits for name in (HAMI_CORES, HAMI_MEMORY, HAMI_PERCENTAGE)):
        limits[GPU] = "1"
        asks = True
    if (
        _requested_amount(container, GPU) is None
        or _requested_amount(container, HAMI_CORES) is not None
    ):
        return asks
    exclusive = (
        percentage == 100
        if percentage is not None
        else _requested_amount(container, HAMI_MEMORY) is None
    )
    if exclusive:
        resources = container.setdefault("resources", {})
        resources["limits"] = {**(resources.get("limits") or {}), HAMI_CORES: str(CORES)}
        return True
    return asks


def decode(text: str) -> Shares:
    """Return the shares that a pod's annotation lists, by container."""
    return tuple(
        tuple(
            Share(fields[0], int(fields[2]), int(fields[3]))
            for entry in container.split(":")
            if len(fields := entry.split(",")) == 4
        )
        for container in text.split(";")[:-1]
    )


def encode(shares: Shares) -> str:
    """Return the annotation that lists the shares of a pod's containers."""
    return "".join(
        "".join(f"{share.uuid},{VENDOR},{share.memory},{share.cores}:" for share in container) + ";"
        for container in shares
    )


def usage(pod: Json, shares: Shares) -> dict[str, tuple[int, int, int]]:
    """Return slots, memory and cores that a pod uses of each GPU, by the GPU's UUID.

    Init containers run one after the other, so of each GPU their largest share counts.
    """
    first = len(pod["spec"].get("initContainers") or ())
    init: dict[str, tuple[int, int, int]] = {}
    app: dict[str, tuple[int, int, int]] = {}
    for position, container in enumerate(shares):
        for share in container:
            if position < first:
                _, memory, cores = init.get(share.uuid, (0, 0, 0))
                init[share.uuid] = 1, max(memory, share.memory), max(cores, share.cores)
            else:
                slots, memory, cores = app.get(share.uuid, (0, 0, 0))
                app[share.uuid] = slots + 1, memory + share.memory, cores + share.cores
    none = (0, 0, 0)
    return {
        uuid: (
            max(init.get(uuid, none)[0], app.get(uuid, none)[0]),
            max(init.get(uuid, none)[1], app.get(uuid, none)[1]),
            max(init.get(uuid, none)[2], app.get(uuid, none)[2]),
        )
        for uuid in {*init, *app}
    }


def holds(pod: Json) -> dict[str, tuple[int, int, int]]:
    """Return a pod's share of each GPU, from its annotations; empty once the pod has ended."""
    notes = pod["metadata"].get("annotations") or {}
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    if ended or not notes.get(ASSIGNED_NODE):
        return {}
    return usage(pod, decode(notes.get(ALLOCATED, "")))


def quota_of(namespace: str, quotas: Iterable[Json], pods: Iterable[Json]) -> Quota:
    """Return the limits of a namespace's ResourceQuotas for HAMi, and what its pods use."""
    limits = {}
    for item in quotas:
        for name, value in ((item.get("spec") or {}).get("hard") or {}).items():
            resource = name.removeprefix("limits.")
            if name.startswith("limits.") and resource in (HAMI_MEMORY, HAMI_CORES):
                limits[resource] = read_milli(value) // 1000
    used = [
        amounts
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        for amounts in holds(pod).values()
    ]
    return Quota(limits, sum(memory for _, memory, _ in used), sum(cores for _, _, cores in used))


def _fit(
    gpus: Sequence[Gpu], request: Request, pod: Json, cordoned: frozenset[str], quota: Quota
) -> tuple[list[Share], str]:
    """Return the shares that one container gets of a node's GPUs, or why there are none.

    Args:
        gpus: The node's GPUs, the preferred ones last.
        cordoned: UUIDs of GPUs that take no further pods.
        quota: Quota of the namespace, with what the pod's other containers use.
    """
    notes = pod["metadata"].get("annotations") or {}
    policies = (notes.get(POLICY) or "").split(",")
    missing, chosen, reasons = request.number, list[Share](), Counter[str]()
    for gpu in reversed(gpus):
        memory = request.memory
        if request.percentage != UNSET and request.memory == 0:
            memory = gpu.memory * request.percentage // 100
        cores = min(request.cores, CORES)
        with_this = [*chosen, Share(gpu.uuid, memory, cores)]
        reason = ""
        if not gpu.healthy:
            reason = "CardNotHealth"
        elif gpu.uuid in cordoned:
            reason = "CardCordoned"
        elif not _is_wanted(notes, gpu.model.upper(), "nvidia.com/use-gputype", "nouse-gputype"):
            reason = "CardTypeMismatch"
        elif not _is_wanted(notes, gpu.uuid, "nvidia.com/use-gpuuuid", "nouse-gpuuuid"):
            reason = "CardUuidMismatch"
        elif gpu.count <= gpu.used:
            reason = "CardTimeSlicingExhausted"
        elif "mutex" in policies and gpu.used > 0:
            reason = "ExclusiveDeviceAllocateConflict"
        elif not quota.fits(sum(s.memory for s in with_this), sum(s.cores for s in with_this)):
            reason = "ResourceQuotaNotFit"
        elif gpu.memory - gpu.used_memory < memory:
            reason = "CardInsufficientMemory"
        elif gpu.cores - gpu.used_cores < cores:
            reason = "CardInsufficientCore"
        elif gpu.cores == CORES and cores == CORES and gpu.used > 0:
            reason = "ExclusiveDeviceAllocateConflict"
        elif gpu.cores != 0 and gpu.used_cores == gpu.cores and cores == 0:
            reason = "CardComputeUnitsExhausted"
        if reason:
            reasons[reason] += 1
            continue
        if missing > 0:
            missing -= 1
            chosen.append(Share(gpu.uuid, memory, cores))
        if missing == 0:
            return chosen, ""
    if chosen:
        reasons["AllocatedCardsInsufficientRequest"] = len(chosen)
    texts = sorted(f"{count}/{len(gpus)} {reason}" for reason, count in reasons.items())
    return [], ", ".join(texts)


def _is_wanted(notes: Mapping[str, str], value: str, use: str, no_use: str) -> bool:
    """Return whether a pod's annotations admit a GPU by its model or its UUID."""
    by_uuid = use.endswith("uuid")

    def matches(listed: str) -> bool:
        words = [word.strip() for word in listed.split(",")]
        return value in words if by_uuid else any(w and w.upper() in value for w in words)

    allowed, unwanted = notes.get(use, ""), notes.get(f"nvidia.com/{no_use}", "")
    if allowed.strip() and not matches(allowed):
        return False
    return not (unwanted.strip() and matches(unwanted))


def _score_gpu(gpu: Gpu) -> float:
    if not (gpu.count and gpu.cores and gpu.memory):
        return 0
    return gpu.used / gpu.count + gpu.used_cores / gpu.cores + gpu.used_memory / gpu.memory


def _sort_by_policy(gpus: Iterable[Gpu], policy: str) -> list[Gpu]:
    """Return a node's GPUs in the order of a policy, the preferred ones last."""
    sign = 1 if policy == "binpack" else -1
    return sorted(gpus, key=lambda gpu: (sign * _score_gpu(gpu), gpu.index))


def place_on(
    node: Json, gpus: list[Gpu], pod: Json, quota: Quota, policy: str
) -> tuple[Shares, str]:
    """Return the shares that a pod's containers get on one node, or why it does not fit.

    Args:
        node: The Node.
        gpus: Its GPUs with what other pods use.
        quota: Quota of the pod's namespace.
        policy: Policy for GPUs, unless the pod's annotation names another one.
    """
    notes = pod["metadata"].get("annotations") or {}
    policy = notes.get(POLICY) or policy
    listed = (node["metadata"].get("annotations") or {}).get(CORDONED, "")
    cordoned = frozenset(word.strip() for word in listed.split(",") if word.strip())
    first = len(pod["spec"].get("initContainers") or ())
    running = [replace(gpu) for gpu in gpus]
    own_quota = Quota(quota.limits, quota.memory, quota.cores)
    shares: list[tuple[Share, ...]] = []
    for position, container in enumerate(_containers_in_order(pod)):
        request = request_of(container)
        if request.number == 0:
            shares.append(())
            continue
        # Each init container sees the node without the other containers of its pod.
        state = [replace(gpu) for gpu in gpus] if position < first else running
        counted = quota if position < first else own_quota
        if request.number > len(state):
            return (), "NodeInsufficientDevice"
        chosen, reason = _fit(_sort_by_policy(state, policy), request, pod, cordoned, counted)
        if not chosen:
            return (), reason
        shares.append(tuple(chosen))
        if position < first:
            continue
        by_uuid = {gpu.uuid: gpu for gpu in running}
        for share in chosen:
            gpu = by_uuid[share.uuid]
            gpu.used, gpu.used_memory = gpu.used + 1, gpu.used_memory + share.memory
            gpu.used_cores += share.cores
        own_quota.memory += sum(new_share.memory for new_share in chosen)
        own_quota.cores += sum(new_share.cores for new_share in chosen)
    return tuple(shares), ""


def _kept_off(node: Json, pod: Json) -> str:
    """Return why kube-scheduler's own filters keep a pod off a node; empty if they don't.

    Source: kubernetes v1.36.3 pkg/scheduler/framework/plugins (nodeunschedulable, tainttoleration,
    nodeaffinity).
    """
    spec, tolerations = node.get("spec") or {}, pod["spec"].get("tolerations") or ()
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in map(NodeTaint.of, spec.get("taints") or ()):
        if taint.is_hard and not any(tolerates(toleration, taint) for toleration in tolerations):
            return "node(s) had untolerated taint(s)"
    if not is_node_selected(pod["spec"], node):
        return "node(s) didn't match Pod's node affinity/selector"
    return ""


def place(
    nodes: Iterable[Json], pod: Json, pods: Sequence[Json], quota: Quota, policies: tuple[str, str]
) -> Placement:
    """Return the node on which a pod fits, and the shares that its containers get there.

    Args:
        nodes: All Nodes of the cluster.
        pod: Pod that waits.
        pods: Pods that HAMi has placed.
        quota: Quota of the pod's namespace.
        policies: Policy for nodes and policy for GPUs in HAMi's configuration.
    """
    notes = pod["metadata"].get("annotations") or {}
    by_node, by_gpu = policies
    by_node = notes.get(NODE_POLICY) or by_node
    used: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for running in pods:
        for uuid, amounts in holds(running).items():
            used[uuid].append(amounts)
    reasons: dict[str, str] = {}
    asked_nodes: list[str] = []
    fitting: list[tuple[float, str, Shares]] = []
    for node in nodes:
        name = node["metadata"]["name"]
        if reason := _kept_off(node, pod):
            reasons[name] = reason
            continue
        asked_nodes.append(name)
        gpus = read_gpus(node)
        if not gpus:
            reasons[name] = "node unregistered"
            continue
        for gpu in gpus:
            for slots, memory, cores in used[gpu.uuid]:
                gpu.used, gpu.used_memory = gpu.used + slots, gpu.used_memory + memory
                gpu.used_cores += cores
        shares, reason = place_on(node, gpus, pod, quota, by_gpu)
        if reason:
            reasons[name] = reason
        else:
            score = sum(map(_score_gpu, gpus)) / len(gpus)
            fitting.append((-score if by_node == "spread" else score, name, shares))
    if not fitting:
        return Placement(reasons=reasons, asked=tuple(asked_nodes))
    _, name, shares = max(fitting, key=lambda fit: (fit[0], fit[1]))
    return Placement(name, shares, reasons, tuple(asked_nodes))


def filtering_events(placement: Placement) -> list[str]:
    """Return the messages of the Events `FilteringFailed` for a pod that fits nowhere."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for name in placement.asked:
        for reason_text in placement.reasons[name].split(", "):
            counted, _, reason = reason_text.partition(" ")
            if "/" in counted and reason:
                nodes[reason].append(name)
    messages = [
        f"{len(names)} nodes {reason}({','.join(sorted(names))})"
        for reason, names in sorted(nodes.items())
    ]
    if placement.asked:
        messages.append(f"no available node, {len(placement.asked)} nodes do not meet")
    return messages


def unschedulable_message(placement: Placement) -> str:
    """Return kube-scheduler's message for a pod that fits nowhere.

    No pod is preempted, as if all pods had the same priority. Source: kubernetes v1.36.3
    pkg/scheduler/framework/types.go (FitError), preemption/preemption.go (Preempt) and
    plugins (dynamicresources, defaultpreemption).
    """
    count, asked = len(placement.reasons), len(placement.asked)
    # kube-scheduler tries to preempt pods on those nodes that only its extender refused.
    helpless = {
        "No preemption victims found for incoming pod": asked,
        "Preemption is not helpful for scheduling": count - asked,
    }
    return (
        f"{_not_available(Counter(placement.reasons.values()), count)} "
        "no new claims to deallocate, "
        f"preemption: {_not_available(helpless, count)}"
    )


def _not_available(numbers: Mapping[str, int], count: int) -> str:
    texts = sorted(f"{number} {reason}" for reason, number in numbers.items() if number)
    return f"0/{count} nodes are available: {', '.join(texts)}."
