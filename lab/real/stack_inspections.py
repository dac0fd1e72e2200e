"""Functions that read the state of nodes after this project's Pulumi program has run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpu_cluster.nodes import record
from gpu_cluster_lab.simulator import api
from lab.real import objects, stack
from lab.real.lab import Json, Lab


def labels(lab: Lab, node: str) -> dict[str, str]:
    """Return the labels of a node that have NVIDIA's or this project's prefix."""
    return {
        key: value
        for key, value in lab.node(node)["metadata"]["labels"].items()
        if key.startswith(("nvidia.com/", "gpu-cluster/")) and key not in objects.GPU_NODES
    }


def taints(lab: Lab, node: str) -> list[str]:
    """Return all taints of a node, in kubectl's notation."""
    node_taints = lab.node(node)["spec"].get("taints") or []
    return sorted(
        f"{taint['key']}={taint.get('value', '')}:{taint['effect']}" for taint in node_taints
    )


def notes(lab: Lab, node: str) -> list[str]:
    """Return the keys of this project's annotations on a node."""
    annotations = lab.node(node)["metadata"].get("annotations") or {}
    return sorted(key for key in annotations if key.startswith("gpu-cluster/"))


def pods(lab: Lab, node: str, namespace: str) -> list[Json]:
    """Return the pods of a namespace on a node."""
    all_pods = lab.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in all_pods if pod["spec"].get("nodeName") == node]


def plugins(inspect: Callable[[Json], Any]) -> Callable[[Lab, str], list[Any]]:
    """Return a function that reads the status of a node's device plugin pods.

    Pods that are being deleted are omitted.
    """
    return lambda lab, node: [
        inspect(pod["status"])
        for pod in pods(lab, node, stack.NAMESPACE)
        if "deletionTimestamp" not in pod["metadata"]
    ]


def containers(pod_status: Json) -> list[tuple[str, bool]]:
    """Return the names of a pod's containers, and whether each container is ready."""
    statuses = pod_status.get("containerStatuses") or []
    return sorted((status["name"], status["ready"]) for status in statuses)


def recorded(inspect: Callable[[record.ValidationRecord], Any]) -> Callable[[Lab, str], Any]:
    """Return a function that reads a node's validation record."""

    def looked(lab: Lab, node: str) -> Any:
        validation_record = record.decode(lab.node(node))
        return inspect(validation_record) if validation_record else None

    return looked


def namespaces(lab: Lab, node: str) -> list[str]:
    """Return which of the stack's namespaces exist."""
    names = ("gpu-validation", stack.NAMESPACE)
    return [namespace for namespace in names if lab.exists(f"/api/v1/namespaces/{namespace}")]


def runtime_class(lab: Lab, node: str) -> str:
    """Return the handler of the RuntimeClass `nvidia`; empty if the RuntimeClass doesn't exist."""
    try:
        runtime_class_object = lab.request("GET", "/apis/node.k8s.io/v1/runtimeclasses/nvidia")
    except api.ApiError:
        return ""
    return str(runtime_class_object["handler"])


def classes_of_plugins(lab: Lab, node: str) -> list[str]:
    """Return the RuntimeClass name of each device plugin pod on a node."""
    return [pod["spec"].get("runtimeClassName", "") for pod in pods(lab, node, stack.NAMESPACE)]
