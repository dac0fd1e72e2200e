"""Checks of a driver upgrade by the real GPU Operator, and of this project's rollout meanwhile.

The checks read the operator's upgrade labels on two nodes: one node is free, and the other node was
cordoned by this project's program before the upgrade.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.kubernetes.resources import AT_REST, UPGRADE
from gpu_cluster.nodes.inspect import CORDONED
from gpu_cluster.platforms.gpu_operator.values import NODE_ANNOTATIONS, NODE_LABELS
from gpu_cluster.rollout.inspect import left_alone
from gpu_cluster_lab.simulator import api
from lab.real.lab import Lab
from lab.real.operator import policies
from lab.real.operator.controller import NAMESPACE
from lab.real.operator.site import NODES, POLICY, Json, Site

#: Upgrade states of a node in order (NVIDIA/k8s-operator-libs ea58a3ada15c, which gpu-operator
#: v24.3.0 uses, pkg/upgrade/consts.go and upgrade_state.go). `drain-required` occurs only if pods
#: can't be deleted.
STATES = (
    "upgrade-required",
    "cordon-required",
    "wait-for-jobs-required",
    "pod-deletion-required",
    "pod-restart-required",
    "validation-required",
    "uncordon-required",
    "upgrade-done",
)
#: Upgrade states of a node that was already cordoned; the operator doesn't uncordon it
#: (updateNodeToUncordonOrDoneState).
_HELD = tuple(state for state in STATES if state != "uncordon-required")
FREE, OURS = policies.NODES
SETTING = policies.Setting(
    "a driver's upgrade",
    {"driver": policies.DRIVER, "gpuOperator": {"upgrade": {"parallel": 2, "maxUnavailable": 2}}},
)
NEWER = "550.90.07"
_LIMIT = 400.0


@dataclass
class Seen:
    """Observations during a driver upgrade.

    `nodes` has all versions of each Node object during the upgrade; `before` has the keys of the
    labels and annotations that each node had before.
    """

    nodes: dict[str, list[Json]] = field(default_factory=dict)
    before: dict[str, set[str]] = field(default_factory=dict)

    def states(self, name: str) -> tuple[str, ...]:
        """Return the operator's upgrade states of a node, in order and without repetitions."""
        return tuple(dict.fromkeys(_upgrade_state(node) for node in self.nodes[name]))


@dataclass(frozen=True)
class Fact:
    """Result of one check of a driver upgrade; `problem` is empty if the check passed."""

    name: str
    problem: str


def facts(site: Site, objects: list[Json], alive: Callable[[], None]) -> Iterator[Fact]:
    """Upgrade the driver by the real GPU Operator, and yield the results of all checks.

    Args:
        site: Cluster on which the real operator runs.
        objects: Policy of `SETTING`.
        alive: Function that raises an error if the operator has ended.
    """
    with site.applied(SETTING, objects, alive):
        observed = _run_upgrade(site.lab, alive)
    for name, judge in JUDGES.items():
        yield Fact(name, judge(observed))


def _run_upgrade(lab: Lab, alive: Callable[[], None]) -> Seen:
    body: Json = {"metadata": {"annotations": {CORDONED: "rollout"}}}
    lab.request("PATCH", f"{NODES}/{OURS}", {**body, "spec": {"unschedulable": True}})
    listed = lab.request("GET", NODES)
    observed = Seen(
        before={node["metadata"]["name"]: _metadata_keys(node) for node in listed["items"]}
    )
    lab.request("PATCH", POLICY, {"spec": {"driver": {"version": NEWER}}})

    def done() -> bool:
        alive()
        path, driver = f"/api/v1/namespaces/{NAMESPACE}/pods", "app=nvidia-driver-daemonset"
        pods = lab.request("GET", path, labelSelector=driver)["items"]
        images = [pod["spec"]["containers"][0]["image"] for pod in pods]
        states = [_upgrade_state(lab.node(name)) for name in policies.NODES]
        return all(NEWER in image for image in images) and set(states) == {"upgrade-done"}

    lab.until("upgrade of the driver", done, bool, _LIMIT)
    for node in asyncio.run(_node_versions(lab, listed["metadata"]["resourceVersion"])):
        observed.nodes.setdefault(node["metadata"]["name"], []).append(node)
    free = {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}}
    lab.request("PATCH", f"{NODES}/{OURS}", free)
    return observed


async def _node_versions(lab: Lab, version: str) -> list[Json]:
    """Return all versions of the Node objects since a resource version, in order.

    Versions before a node's first upgrade state are omitted.
    """
    async with api.connect(lab.plane.access()) as client:
        events = [
            event["object"] async for event in client.watch(NODES, version, timeoutSeconds="1")
        ]
    begun: set[str] = set()
    result = []
    for node in events:
        name = node["metadata"]["name"]
        if _upgrade_state(node) not in AT_REST:
            begun.add(name)
        if name in begun:
            result.append(node)
    return result


def _upgrade_state(node: Json) -> str:
    return str((node["metadata"].get("labels") or {}).get(UPGRADE, ""))


def _metadata_keys(node: Json) -> set[str]:
    meta = node["metadata"]
    return {*(meta.get("labels") or {}), *(meta.get("annotations") or {})}


def _difference_text(found: Any, wanted: Any) -> str:
    return "" if found == wanted else f"found {found}; wanted: {wanted}"


def _at_work(observed: Seen) -> str:
    """Check that this project's rollout leaves a node alone until its last upgrade state."""
    wrong = [
        (name, _upgrade_state(node), left_alone(node))
        for name, nodes in observed.nodes.items()
        for node in nodes
        if ("at work on its driver" in left_alone(node)) != (_upgrade_state(node) != STATES[-1])
    ]
    return _difference_text(wrong, [])


def _check_cordoned(observed: Seen) -> str:
    """Check in which upgrade states the node is always cordoned."""
    free = {
        _upgrade_state(node)
        for node in observed.nodes[FREE]
        if not node["spec"].get("unschedulable")
    }
    return _difference_text([state for state in STATES if state not in free], list(STATES[2:6]))


def _check_our_cordon(observed: Seen) -> str:
    last = observed.nodes[OURS][-1]
    was_kept = all(
        node["spec"].get("unschedulable") and CORDONED in node["metadata"]["annotations"]
        for node in observed.nodes[OURS]
    )
    return _difference_text((was_kept, left_alone(last)), (True, ""))


def _check_keys(observed: Seen) -> str:
    new = {
        key
        for name, nodes in observed.nodes.items()
        for node in nodes
        for key in _metadata_keys(node) - observed.before[name]
    }
    known_prefixes = (*NODE_LABELS, *NODE_ANNOTATIONS)
    return _difference_text(sorted(key for key in new if not key.startswith(known_prefixes)), [])


JUDGES: dict[str, Callable[[Seen], str]] = {
    "a driver's upgrade goes through the operator's states in their order": lambda observed: (
        _difference_text(observed.states(FREE), STATES)
    ),
    "the operator cordons a node before it waits, and uncordons it last": _check_cordoned,
    "a node that we cordoned goes through them and isn't uncordoned": lambda observed: (
        _difference_text(observed.states(OURS), _HELD)
    ),
    "in all states but the last our rollout leaves the node to the operator": _at_work,
    "a node that we cordoned stays cordoned and ours": _check_our_cordon,
    "each label and annotation that it writes is one of those that we take away": _check_keys,
}
