"""Explain why no node advertises a resource, by the state of the part that should do it.

A node offers a resource if its allocatable amount is not 0: a kubelet keeps the name of a resource
with the amount 0 after its device plugin has gone (kubernetes v1.36.3, pkg/kubelet/nodestatus).
Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_cluster.base.nearness import LIKE_ENOUGH, nearest, similarity
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.managers import MANAGERS
from gpu_cluster.kubernetes.resources import MIG_STATE, PLUGIN_LABEL
from gpu_cluster.nodes.causes.cause import Around, Cause, Kind
from gpu_cluster.nodes.causes.containers import statuses, waiting_reason
from gpu_cluster.nodes.causes.node_fit import NAME
from gpu_cluster.nodes.inspect import gpus
from gpu_rules.kube.gpu_resources import GPU, GPU_SHARED, MIG
from gpu_rules.kube.names import is_extended_resource
from gpu_rules.printable import printable, shortened

NAMED = 3
"""Maximum number of nodes, pods or resources that one text names."""
_PAUSED = {
    "paused-for-mig-change": "see the log of the MIG manager's pod (nvidia-mig-manager) on the "
    "node; if it waits for a change, write the node's label nvidia.com/mig.config again",
    "paused-for-driver-upgrade": "see the driver's pod on the node (container k8s-driver-manager): "
    "it lets the device plugin run again once the driver is loaded",
}
"""What to do about each value of `PLUGIN_LABEL` that keeps the device plugin from a node."""


def _is_nvidia(resource: str) -> bool:
    """Return whether NVIDIA's device plugin gives GPUs, shares of GPUs or MIG devices this name."""
    return resource in (GPU, GPU_SHARED) or resource.startswith(MIG)


def is_ready(pod: Json) -> bool:
    """Return whether a pod has the condition Ready."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def allocates_gpus(pod: Json) -> bool:
    """Return whether a pod belongs to software that allocates GPUs, by its images."""
    images = [str(container.get("image")) for container in pod["spec"]["containers"]]
    return any(manager in image for manager in MANAGERS for image in images)


def explain_offer(resource: str, around: Around) -> Cause:
    """Return the cause why no node offers a resource."""
    name = printable(resource, NAME)
    text = f"no node offers {name}"
    capable_nodes = [node for node in around.nodes if resource in _amounts(node, "capacity")]
    marked = _explain_labels(resource, around.nodes)
    other_names = sorted(
        {offered_name for node in around.nodes for offered_name in _offered_names(node)}
    )
    if marked:
        return _append_cause(text, marked)
    if _is_nvidia(resource) and (near := list(filter(_is_nvidia, other_names))):
        names = shortened([printable(name_offered, NAME) for name_offered in near], NAMED)
        cure = f"request {names}, or change the sharing of GPUs or the MIG layout of the nodes"
        return Cause(kind=Kind.RESOURCE_NAME, text=f"{text}; nodes offer {names}", cure=cure)
    if other_names and not capable_nodes:
        near_one = nearest(resource, other_names)
        right = printable(near_one, NAME)
        cure = f"correct the name to {right}"
        if similarity(resource, near_one) < LIKE_ENOUGH:
            cure += ", if that is meant; or see that the device plugin of this resource runs"
        return Cause(kind=Kind.RESOURCE_NAME, text=f"{text}; nodes offer {right}", cure=cure)
    total = sum(gpus(node, "capacity", resource) for node in capable_nodes)
    if total:
        text += f": 0 of {total} are allocatable"
    # If no node ever had the resource, every node counts as one that should have it.
    return _append_cause(
        text, _explain_plugin(capable_nodes or list(around.nodes), around, has_devices=total > 0)
    )


def explain_plugin(node: str, around: Around) -> Cause | None:
    """Return a cause if a pod of a device plugin on a node is not ready, else None."""
    plugin_pods = [pod for pod in _plugin_pods([node], around) if not is_ready(pod)]
    return _explain_unready(plugin_pods[0]) if plugin_pods else None


def _append_cause(text: str, cause: Cause) -> Cause:
    return Cause(kind=cause.kind, text=f"{text}; {cause.text}", cure=cause.cure)


def _amounts(node: Json, kind: str) -> Json:
    return (node.get("status") or {}).get(kind) or {}


def _offered_names(node: Json) -> list[str]:
    """Return the extended resources that a node offers."""
    names = filter(is_extended_resource, _amounts(node, "allocatable"))
    return [name for name in names if gpus(node, resource=name)]


def _explain_labels(resource: str, nodes: Iterable[Json]) -> Cause | None:
    """Return the cause why a node has no GPUs, if the operator's labels show it; else None."""
    for node in nodes if _is_nvidia(resource) else ():
        labels = node["metadata"].get("labels") or {}
        name = printable(node["metadata"]["name"], NAME)
        paused, state = str(labels.get(PLUGIN_LABEL)), str(labels.get(MIG_STATE) or "success")
        if paused in _PAUSED:
            text = f"node {name} has the label {PLUGIN_LABEL}={paused}"
            return Cause(kind=Kind.NODE, text=text, cure=_PAUSED[paused])
        if state != "success":
            text = f"node {name} has the label {MIG_STATE}={printable(state, NAME)}"
            cure = "see the log of the MIG manager's pod (nvidia-mig-manager) on the node"
            return Cause(kind=Kind.NODE, text=text, cure=cure)
    return None


def _plugin_pods(nodes: Iterable[str], around: Around) -> list[Json]:
    names, spaces = set(nodes), around.platform_namespaces
    return [
        pod
        for pod in around.pods
        if pod["spec"].get("nodeName") in names
        and (spaces is None or pod["metadata"]["namespace"] in spaces)
        and allocates_gpus(pod)
    ]


def _explain_plugin(nodes: Sequence[Json], around: Around, *, has_devices: bool) -> Cause:
    """Return the state of the device plugins' pods on some nodes, and a cure.

    Args:
        has_devices: Whether the nodes have such devices, of which none is allocatable.
    """
    names = [str(node["metadata"]["name"]) for node in nodes]
    plugin_pods = _plugin_pods(names, around)
    if not plugin_pods:
        node_names = shortened([printable(name, NAME) for name in names], NAMED) or "the nodes"
        return Cause(
            kind=Kind.RESOURCE_NAME,
            text=f"no pod of a device plugin runs on {node_names}",
            cure="install the device plugin, or see why its DaemonSet has no pod there "
            "(`kubectl get daemonsets -A`)",
        )
    if unready := [pod for pod in plugin_pods if not is_ready(pod)]:
        return _explain_unready(unready[0])
    pod = _pod_name(plugin_pods[0])
    if has_devices:
        text, cure = f"none is healthy for its device plugin {pod}", "see the nodes' Xid lines"
    else:
        text, cure = f"its device plugin {pod} runs and advertises none", "see the plugin's log"
    namespace, _, name = pod.partition("/")
    cure += f" (`kubectl logs -n {namespace} {name}`)" if not has_devices else " and its log"
    return Cause(kind=Kind.RESOURCE_NAME, text=text, cure=cure)


def _explain_unready(pod: Json) -> Cause:
    waits = next((reason for status in statuses(pod) if (reason := waiting_reason(status))), "")
    state = f": {printable(waits, NAME)}" if waits else ""
    node = printable(str(pod["spec"]["nodeName"]), NAME)
    return Cause(
        kind=Kind.RESOURCE_NAME,
        text=f"device plugin {_pod_name(pod)} on node {node} is not ready{state}",
        cure=f"see `gpu-cluster why {_pod_name(pod)}`",
    )


def _pod_name(pod: Json) -> str:
    meta = pod["metadata"]
    return printable(f"{meta['namespace']}/{meta['name']}", NAME)
