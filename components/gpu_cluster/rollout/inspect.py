"""Inspection of the nodes that a rollout would change: obstacles, and pods to evict with owners.

The inspection only reads, and only the nodes that change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from gpu_cluster.kubernetes.api import Client, ClusterError, Json, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.resources import AT_REST, UPGRADE
from gpu_cluster.nodes import control_planes, drain
from gpu_cluster.nodes.pods import pod_on_node
from gpu_cluster.nodes.static_pods import StaticPods
from gpu_cluster.rollout.operands import is_gpu_daemon
from gpu_cluster.rollout.plan import View
from gpu_rules.printable import printable

Held = dict[tuple[str, str], str]
"""Name of the exhausted PodDisruptionBudget, by namespace and name of the pod that it covers."""

BUDGETS = 50
"""Maximum number of exhausted PodDisruptionBudgets of a namespace whose pods are listed.

Each budget needs a list of pods, and who may create budgets in a namespace may create any number.
"""


def left_alone(node: Json) -> str:
    """Return why a rollout must skip a node, such as a cordon by somebody else; else empty."""
    state = str(node["metadata"].get("labels", {}).get(UPGRADE, ""))
    if state not in AT_REST:
        return f"the GPU Operator is at work on its driver ({printable(state)})"
    if node["spec"].get("unschedulable") and not drain.cordoned_by_us(node):
        return "cordoned, not by this program"
    return ""


def owner(pod: Json) -> str:
    """Return the owner of a pod as text, such as `team-a/Deployment web`."""
    namespace, name, kind = drain.workload_of(pod)
    return f"{namespace}/{kind} {name}"


def selector(labels: Json) -> str:
    """Return a LabelSelector as a query string.

    Source: Kubernetes documentation, "Labels and Selectors".
    """
    terms = [f"{key}={value}" for key, value in (labels.get("matchLabels") or {}).items()]
    for term in labels.get("matchExpressions") or []:
        key, values = term["key"], ",".join(term.get("values") or [])
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[term["operator"]]
        )
    return ",".join(terms)


async def exhausted(client: Client, spaces: set[str]) -> Held:
    """Return the pods whose PodDisruptionBudget allows no disruption now, with the budget's name.

    If a namespace has more than `BUDGETS` such budgets, pods of the further budgets are left out.

    Args:
        spaces: Namespaces to search.
    """
    listed = await client.list("poddisruptionbudgets", base="/apis/policy")
    tight: dict[str, list[Json]] = {space: [] for space in spaces}
    for budget in listed:
        of_space = tight.get(budget["metadata"]["namespace"])
        if (
            of_space is not None
            and len(of_space) < BUDGETS
            and not budget.get("status", {}).get("disruptionsAllowed")
            and budget["spec"].get("selector") is not None
        ):
            of_space.append(budget)

    async def covered(budget: Json) -> Held:
        space, name = budget["metadata"]["namespace"], budget["metadata"]["name"]
        query = {"labelSelector": selector(budget["spec"]["selector"])}
        pods = await client.list(f"namespaces/{space}/pods", **query)
        return {(space, pod["metadata"]["name"]): name for pod in pods}

    budgets: Held = {}
    for pods in await gather(covered, chain.from_iterable(tight.values())):
        budgets |= pods
    return budgets


def view(
    node: Json, pods: list[Json], budget_of: dict[tuple[str, str], str], consent: Sequence[str]
) -> View:
    """Inspect one node that a rollout would change: obstacles, and pods to evict."""
    going = drain.to_evict(pods)
    budgets = {
        f"{pod['metadata']['namespace']}/{budget_of[key]}"
        for pod in going
        if (key := (pod["metadata"]["namespace"], pod["metadata"]["name"])) in budget_of
    }
    return View(
        left=left_alone(node),
        begun=drain.cordoned_by_us(node),
        evicts=dict(Counter(map(owner, going))),
        pods=tuple(map(pod_on_node, going)),
        lost=drain.losses(going, consent),
        budgets=tuple(sorted(budgets)),
        daemons=dict(Counter(owner(pod) for pod in pods if is_gpu_daemon(pod))),
    )


async def views(client: Client, names: list[str], consent: Sequence[str]) -> dict[str, View]:
    """Inspect the named nodes that exist in the cluster; return the results by node name."""

    async def inspected(name: str) -> tuple[str, Json | None, list[Json]]:
        node = await drain.node_of(client, name)
        query = {"fieldSelector": f"spec.nodeName={name}"}
        return name, node, await client.list("pods", **query) if node else []

    inspections = await gather(inspected, names)
    spaces = {
        pod["metadata"]["namespace"] for _, _, pods in inspections for pod in drain.to_evict(pods)
    }
    budgets = await exhausted(client, spaces) if spaces else {}
    return {
        name: view(node, pods, budgets, consent)
        for name, node, pods in inspections
        if node is not None
    }


@dataclass(frozen=True)
class NodesSeen:
    """Result of inspecting the nodes that a rollout would change.

    Attributes:
        views: Inspected nodes that are in the cluster, by name.
        server: Version of the API server. Empty if it could not be read.
        unreachable: Why the cluster could not be inspected. Empty if it was inspected.
        static_pods: Static pods of the control plane.
    """

    views: Mapping[str, View] = field(default_factory=dict)
    server: str = ""
    unreachable: str = ""
    static_pods: StaticPods = field(default_factory=StaticPods)


async def observe_nodes(context: str, names: list[str], consent: Sequence[str]) -> NodesSeen:
    """Inspect the nodes that a rollout would change.

    Args:
        names: Names of the nodes.
        consent: Losses of pods that the user accepts (`rollout.evict`).
    """
    try:
        async with connect(context) as client:
            version = await client.server_version()
            node_views = await views(client, names, consent)
            static_pods = await control_planes.observe_static_pods(client)
        return NodesSeen(node_views, version, static_pods=static_pods)
    except ClusterError as error:
        return NodesSeen(unreachable=str(error))
