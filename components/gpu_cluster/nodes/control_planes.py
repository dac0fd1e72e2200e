"""Health of a control plane with several members, before and after one of them is changed.

kubeadm's static pods carry it: etcd's pod is ready if the member has a vote, no alarm about corrupt
data, and reads what the majority has written (etcd v3.6 server/etcdserver/api/etcdhttp/health.go,
readyz), and the API server's pod is ready if /readyz is (kubernetes v1.34
cmd/kubeadm/app/util/staticpod/utils.go, ReadinessProbe).
"""

from __future__ import annotations

import contextlib
import re

from gpu_cluster.kubernetes.api import Client, ClusterError, Json
from gpu_cluster.nodes import drain
from gpu_cluster.nodes.static_pods import StaticPods
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

PODS = "namespaces/kube-system/pods"
SELECTOR = "tier=control-plane,component in (etcd,kube-apiserver)"
_TAG = re.compile(r":v(\d{1,3}\.\d{1,3}\.\d{1,3})(?:[-@]|$)")


async def observe_static_pods(client: Client) -> StaticPods:
    """Return the state of the control plane, as its static pods show it."""
    pods = await client.list(PODS, labelSelector=SELECTOR)
    by_component: dict[str, dict[str, Json]] = {"etcd": {}, "kube-apiserver": {}}
    for pod in pods:
        component = pod["metadata"]["labels"].get("component")
        by_component.get(component, {})[str(pod["spec"].get("nodeName", ""))] = pod
    servers = {node: _version(pod) for node, pod in by_component["kube-apiserver"].items()}
    down = {
        str(pod["metadata"]["name"]): str(pod["spec"].get("nodeName", ""))
        for pod in pods
        if not drain.ready(pod)
    }
    return StaticPods(servers, down if len(by_component["etcd"]) > 1 else {})


def _version(pod: Json) -> str:
    """Return the version in the tag of a static pod's image (kubeadm v1.34 GetKubernetesImage)."""
    containers = pod["spec"].get("containers") or [{}]
    tag = _TAG.search(str(containers[0].get("image", "")))
    return tag[1] if tag else ""


async def members_down(client: Client, without: str = "") -> tuple[str, ...]:
    """Return the names of the pods of etcd and API servers that aren't ready, sorted.

    Args:
        without: Name of a node whose pods don't count.
    """
    pods = await observe_static_pods(client)
    return tuple(sorted(pod for pod, node in pods.down.items() if node != without))


async def require_members(client: Client, node: str) -> None:
    """Check that all other members of the control plane run, before one of them is changed.

    Args:
        node: Name of the node that is to be changed; a change may mend it.

    Raises:
        ClusterError: A member is down; without this host, etcd could lose its majority.
    """
    if down := await members_down(client, without=node):
        raise ClusterError(
            Fault(
                f"node {node}",
                f"pods of the control plane that aren't ready: {printable(', '.join(down))}",
                "each other member of etcd and each API server ready, before this one is changed",
                "mend that control plane first, then run `up` again; this node was not touched",
            )
        )


async def wait_members(client: Client, node: str, limit: float) -> None:
    """Wait until all members of the control plane run again, after one of them was changed.

    Args:
        node: Name of the node that was changed.
        limit: Seconds to wait.

    Raises:
        ClusterError: A member is still down.
    """
    down: tuple[str, ...] = ()

    async def are_up() -> bool:
        nonlocal down
        # The endpoint may pause while the changed host comes back.
        with contextlib.suppress(ClusterError, OSError):
            down = await members_down(client)
            return not down
        return False

    if not await drain.until(are_up, limit):
        found = f"pods of the control plane that aren't ready {limit:.0f} s after its change"
        raise ClusterError(
            Fault(
                f"node {node}",
                f"{found}: {printable(', '.join(down)) or 'no answer'}",
                "each member of etcd and each API server ready",
                "check the kubelet's log there, then run `up`: it continues where it stopped",
            )
        )
