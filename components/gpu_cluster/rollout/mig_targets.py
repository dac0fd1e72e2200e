"""Target MIG layouts of nodes, and which nodes differ from their target. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_cluster.desired.rollout import DesiredMigLayouts
from gpu_cluster.findings import Aspect, Finding, Kind, Subject
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.resources import ALL_DISABLED, MIG_LABEL, MIG_STATE
from gpu_cluster.nodes.inspect import CORDONED, managed_by, pool_members

APPLIED = "gpu-cluster/layout"
"""Annotation with the MIG layout that this program last applied to a node.

Others may change the label with the layout, but not this annotation.
"""
MARK = "layout"
"""Value of the annotation on a node that was cordoned for a layout change."""
FAILED = "failed"
SUCCESS = "success"
PENDING = ("pending", "rebooting")
"""Values of the label `MIG_STATE` while MIG manager is working.

Source: mig-parted v0.15.0, pkg/mig/reconfigure/reconfigure.go.
"""


@dataclass(frozen=True)
class MigTarget:
    """Target MIG layout of a node.

    Attributes:
        layout: Name of the layout.
        declared: Whether a pool declares the layout. If not, MIG is disabled on the node's GPUs and
            the layout label is released.
    """

    layout: str
    declared: bool = True

    def difference(self, node: Json) -> Finding | None:
        """Return the finding that the node's MIG layout must change; None if it need not."""
        name, observed, recorded = str(node["metadata"]["name"]), layout(node), applied(node)
        about = (Subject.NODE, name, Aspect.LAYOUT)
        if observed != self.layout and self.declared and recorded == self.layout:
            return Finding(Kind.DRIFT, *about, "", recorded, observed)
        if observed != self.layout:
            return Finding(Kind.CHANGE, *about, "", recorded or observed, self.layout)
        if state(node) == FAILED:
            return Finding(Kind.DUE, *about, f" {self.layout} {FAILED}")
        if begun(node) or not self.declared:
            return Finding(Kind.DUE, *about, f" {self.layout}: an earlier run did not end")
        return None


def targets(nodes: list[Json], layouts: DesiredMigLayouts) -> dict[str, MigTarget]:
    """Return the target layouts of nodes, by node name.

    MIG manager changes the layouts. If the platform has none, the result is empty, and `kept`
    returns the layouts that stay.

    Args:
        nodes: Node objects of the API server.
        layouts: Declared layouts.

    Raises:
        ClusterError: The nodes of a pool don't fit its declaration, as in `pool_members`.
    """
    if not layouts.selector:
        return {}
    pool_targets = {
        node["metadata"]["name"]: MigTarget(pool.layout)
        for pool in layouts.pools
        if pool.layout
        for node in pool_members(nodes, pool)
        if node["metadata"]["name"] not in pool.excluded
    }
    left_nodes = {
        node["metadata"]["name"] for node in nodes if managed_by(node, layouts.manager)
    } - {
        *pool_targets,
        *layouts.maintenance,
    }
    return {
        **pool_targets,
        **{name: MigTarget(ALL_DISABLED, declared=False) for name in left_nodes},
    }


def kept(nodes: list[Json], layouts: DesiredMigLayouts) -> dict[str, str]:
    """Return the MIG layouts that stay on nodes, by node name.

    A layout stays if this program has set it, and the stack's platform now has no MIG manager.
    """
    if layouts.selector:
        return {}
    return {
        str(node["metadata"]["name"]): name
        for node in nodes
        if managed_by(node, layouts.manager) and (name := layout(node)) not in ("", ALL_DISABLED)
    }


def state(node: Json) -> str:
    """Return the state in MIG manager's node label; empty if the node has no such label."""
    return str(node["metadata"].get("labels", {}).get(MIG_STATE, ""))


def layout(node: Json) -> str:
    """Return the MIG layout in a node's label; empty if the node has no such label."""
    return str(node["metadata"].get("labels", {}).get(MIG_LABEL, ""))


def applied(node: Json) -> str:
    """Return the MIG layout that this program last applied to the node; empty if none."""
    return str((node["metadata"].get("annotations") or {}).get(APPLIED, ""))


def begun(node: Json) -> bool:
    """Return whether an interrupted run left the node cordoned for a layout change."""
    return bool(node["metadata"].get("annotations", {}).get(CORDONED) == MARK)


def differences(nodes: list[Json], layouts: DesiredMigLayouts) -> dict[str, Finding]:
    """Return the findings about nodes whose layout must change, by node name."""
    target_of = targets(nodes, layouts)
    findings = {
        name: target_of[name].difference(node)
        for node in nodes
        if (name := node["metadata"]["name"]) in target_of
    }
    return {name: finding for name, finding in findings.items() if finding}
