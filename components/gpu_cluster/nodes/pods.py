"""Pods on a node, with the facts that previews show: namespace, name, GPUs. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass

from gpu_cluster.desired.validation import POOL
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.resources import counts_gpus
from gpu_cluster.nodes.drain import owner_of, to_evict
from gpu_cluster.nodes.gpu_holders import FINISHED, allocated
from gpu_rules.kube.pod_resources import device_requests
from gpu_rules.kube.taints import NodeTaint


@dataclass(frozen=True, kw_only=True)
class PodOnNode:
    """A pod that runs on a node.

    Attributes:
        namespace: Namespace of the pod.
        name: Name of the pod.
        gpus: Number of GPUs, or shares of GPUs, that the pod requests.
        recreated: Whether a controller creates the pod again after it is deleted.
    """

    namespace: str
    name: str
    gpus: int = 0
    recreated: bool = True


def pod_on_node(pod: Json) -> PodOnNode:
    """Return a pod with the number of GPUs in its resource requests, without ResourceClaims."""
    meta = pod["metadata"]
    return PodOnNode(
        namespace=str(meta["namespace"]),
        name=str(meta["name"]),
        gpus=sum(count for name, count in device_requests(pod).items() if counts_gpus(name)),
        recreated=owner_of(pod) is not None,
    )


def with_gpus(pods: Iterable[Json]) -> tuple[PodOnNode, ...]:
    """Return the unfinished pods to which the kubelet allocates GPUs, sorted by name.

    Validation pods are left out, and pods whose request the scheduler met with a ResourceClaim
    (Kubernetes API reference, PodStatus, `extendedResourceClaimStatus`).
    """
    running = [
        pod_on_node(pod)
        for pod in pods
        if pod.get("status", {}).get("phase") not in FINISHED
        and POOL not in (pod["metadata"].get("labels") or {})
        and not (pod.get("status") or {}).get("extendedResourceClaimStatus")
    ]
    return tuple(sorted((pod for pod in running if pod.gpus), key=_pod_order))


def not_tolerating(pods: Iterable[Json], taints: Iterable[Json]) -> tuple[PodOnNode, ...]:
    """Return the pods that new taints with effect `NoExecute` evict, sorted by name.

    Mirror pods and pods of DaemonSets are left out, as `kubectl drain` does.
    """
    expelling = [taint for taint in map(NodeTaint.of, taints) if taint.evicts]
    gone = [
        pod_on_node(pod)
        for pod in to_evict(list(pods))
        if any(not taint.is_tolerated(pod["spec"].get("tolerations")) for taint in expelling)
    ]
    return tuple(sorted(gone, key=_pod_order))


def of_claims(claims: Iterable[Json], nodes: Container[str]) -> dict[str, list[PodOnNode]]:
    """Return the pods that whole GPUs are allocated to by ResourceClaims, by node and by name.

    Args:
        claims: ResourceClaims of the cluster.
        nodes: Names of the nodes that count.
    """
    by_node: dict[str, list[PodOnNode]] = {}
    for claim in claims:
        for node, gpus in Counter(node for node, _ in allocated(claim)).items():
            for user in claim["status"].get("reservedFor") or [] if node in nodes else []:
                if user.get("resource") == "pods":
                    space = str(claim["metadata"]["namespace"])
                    pod = PodOnNode(namespace=space, name=str(user["name"]), gpus=gpus)
                    by_node.setdefault(node, []).append(pod)
    return {node: sorted(pods, key=_pod_order) for node, pods in by_node.items()}


def _pod_order(pod: PodOnNode) -> tuple[str, str]:
    return pod.namespace, pod.name
