"""What a rollout would find on nodes: who is in its way, which pods it would evict and whose.

Reads only, and only the nodes that change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.kubernetes.api import Client, ClusterError, Json, connect
from components.kubernetes.gather import gather
from components.nodes import drain
from components.rollout.plan import View
from policies.printable import printable

UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
"""Label by which the GPU Operator's driver upgrade keeps a node's state."""
AT_REST = ("", "upgrade-done")
"""Its values where the operator does nothing (NVIDIA/k8s-operator-libs pkg/upgrade/consts.go)."""

Held = dict[tuple[str, str], str]
"""Names of PodDisruptionBudgets, by namespace and name of a pod."""


def left_alone(node: Json) -> str:
    """Why a node is somebody else's at the moment; empty where it is not."""
    state = str(node["metadata"].get("labels", {}).get(UPGRADE, ""))
    if state not in AT_REST:
        return f"the GPU Operator is at work on its driver ({printable(state)})"
    if node["spec"].get("unschedulable") and not drain.cordoned_by_us(node):
        return "cordoned, not by this program"
    return ""


def owner(pod: Json) -> str:
    """Whose pod it is: ``team-a/Deployment web``."""
    meta = pod["metadata"]
    made_by = drain.owner_of(pod)
    if made_by is None:
        return f"{meta['namespace']}/Pod {meta['name']}"
    kind, name = str(made_by["kind"]), str(made_by["name"])
    # Only a Deployment's ReplicaSets have this label, and end with it.
    hashed = meta.get("labels", {}).get("pod-template-hash")
    if kind == "ReplicaSet" and hashed and name.endswith(f"-{hashed}"):
        kind, name = "Deployment", name.removesuffix(f"-{hashed}")
    return f"{meta['namespace']}/{kind} {name}"


def selector(labels: Json) -> str:
    """A LabelSelector as a query has it (Kubernetes documentation, "Labels and Selectors")."""
    parts = [f"{key}={value}" for key, value in (labels.get("matchLabels") or {}).items()]
    for term in labels.get("matchExpressions") or []:
        key, values = term["key"], ",".join(term.get("values") or [])
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[term["operator"]]
        )
    return ",".join(parts)


async def exhausted(client: Client, spaces: set[str]) -> Held:
    """Pods whose PodDisruptionBudget allows no disruption now, by namespace and name: its name."""
    listed = await client.list("poddisruptionbudgets", base="/apis/policy")
    tight = [
        budget
        for budget in listed
        if budget["metadata"]["namespace"] in spaces
        and not budget.get("status", {}).get("disruptionsAllowed")
        and budget["spec"].get("selector") is not None
    ]

    async def covered(budget: Json) -> Held:
        space, name = budget["metadata"]["namespace"], budget["metadata"]["name"]
        query = {"labelSelector": selector(budget["spec"]["selector"])}
        pods = await client.list(f"namespaces/{space}/pods", **query)
        return {(space, pod["metadata"]["name"]): name for pod in pods}

    held: Held = {}
    for pods in await gather(covered, tight):
        held |= pods
    return held


def view(
    node: Json, pods: list[Json], held: dict[tuple[str, str], str], consent: Sequence[str]
) -> View:
    """Return what was found of one node."""
    going = drain.to_evict(pods)
    budgets = {
        f"{pod['metadata']['namespace']}/{held[key]}"
        for pod in going
        if (key := (pod["metadata"]["namespace"], pod["metadata"]["name"])) in held
    }
    return View(
        left=left_alone(node),
        begun=drain.cordoned_by_us(node),
        evicts=dict(Counter(map(owner, going))),
        lost=drain.losses(going, consent),
        budgets=tuple(sorted(budgets)),
    )


async def views(client: Client, names: list[str], consent: Sequence[str]) -> dict[str, View]:
    """Return the nodes that are in the cluster, by name."""

    async def look(name: str) -> tuple[str, Json | None, list[Json]]:
        node = await drain.node_of(client, name)
        query = {"fieldSelector": f"spec.nodeName={name}"}
        return name, node, await client.list("pods", **query) if node else []

    seen = await gather(look, names)
    spaces = {pod["metadata"]["namespace"] for _, _, pods in seen for pod in drain.to_evict(pods)}
    held = await exhausted(client, spaces) if spaces else {}
    return {name: view(node, pods, held, consent) for name, node, pods in seen if node is not None}


@dataclass(frozen=True)
class NodesSeen:
    """What was found of nodes that change.

    Attributes:
        views: by name, those that are in the cluster.
        server: version of the API server; empty where it wasn't seen.
        unreachable: why nothing was seen; empty where it was.
    """

    views: Mapping[str, View] = field(default_factory=dict)
    server: str = ""
    unreachable: str = ""


async def observe_nodes(context: str, names: list[str], consent: Sequence[str]) -> NodesSeen:
    """Look at nodes that change.

    Args:
        context: context of the kubeconfig.
        names: of the nodes.
        consent: what pods may lose (`rollout.evict`).
    """
    try:
        async with connect(context) as client:
            version = await client.request("GET", "", base="/version", version="")
            found = await views(client, names, consent)
        return NodesSeen(found, str(version["gitVersion"]))
    except ClusterError as error:
        return NodesSeen(unreachable=str(error))
