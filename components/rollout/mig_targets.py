"""Which nodes should have another MIG layout than they have. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from components.desired.rollout import DesiredMigLayouts
from components.findings import Finding, Kind, Subject
from components.kubernetes.api import Json
from components.kubernetes.resources import ALL_DISABLED, MIG_LABEL, MIG_STATE
from components.nodes.inspect import CORDONED, managed_by, pool_members

APPLIED = "gpu-cluster/layout"
"""Annotation of a node: the layout that it was last applied with, beside the label, which others
may change."""
MARK = "layout"
"""Value of the annotation of a node that was cordoned for another layout."""
FAILED = "failed"
SUCCESS = "success"
PENDING = ("pending", "rebooting")
"""Values of `MIG_STATE` (mig-parted v0.15.0, pkg/mig/reconfigure/reconfigure.go)."""


@dataclass(frozen=True)
class MigTarget:
    """A node's layout as it should be.

    Attributes:
        layout: its name.
        declared: whether a pool declares it; otherwise the node gets whole GPUs again, and its
            label is given up.
    """

    layout: str
    declared: bool = True

    def difference(self, node: Json) -> Finding | None:
        """Return what is to be done on a node; None where nothing is."""
        name, found, kept = str(node["metadata"]["name"]), layout(node), applied(node)
        if found != self.layout and self.declared and kept == self.layout:
            return _finding(Kind.DRIFT, name, was=kept, now=found)
        if found != self.layout:
            return _finding(Kind.CHANGE, name, was=kept or found, now=self.layout)
        if state(node) == FAILED:
            return _finding(Kind.DUE, name, f" {self.layout} {FAILED}")
        if begun(node) or not self.declared:
            return _finding(Kind.DUE, name, f" {self.layout}: an earlier run did not end")
        return None


def _finding(kind: Kind, node: str, more: str = "", was: str = "", now: str = "") -> Finding:
    what = f"MIG layout{more}"
    return Finding(kind=kind, subject=Subject.NODE, name=node, what=what, was=was, now=now)


def targets(nodes: list[Json], layouts: DesiredMigLayouts) -> dict[str, MigTarget]:
    """The layouts that nodes should have, by name.

    Args:
        nodes: Node objects of the API server.
        layouts: what is declared.

    Raises:
        ClusterError: as `pool_members`.
    """
    found = {
        node["metadata"]["name"]: MigTarget(pool.layout)
        for pool in layouts.pools
        if pool.layout
        for node in pool_members(nodes, pool)
        if node["metadata"]["name"] not in pool.excluded
    }
    left = {node["metadata"]["name"] for node in nodes if managed_by(node, layouts.manager)} - {
        *found,
        *layouts.maintenance,
    }
    return {**found, **{name: MigTarget(ALL_DISABLED, declared=False) for name in left}}


def state(node: Json) -> str:
    """What MIG manager reports about the node; empty where it has not acted."""
    return str(node["metadata"].get("labels", {}).get(MIG_STATE, ""))


def layout(node: Json) -> str:
    """The layout that a node's label names."""
    return str(node["metadata"].get("labels", {}).get(MIG_LABEL, ""))


def applied(node: Json) -> str:
    """The layout that a run of this program gave the node; empty where none did."""
    return str((node["metadata"].get("annotations") or {}).get(APPLIED, ""))


def begun(node: Json) -> bool:
    """Whether an earlier run cordoned the node for its layout, and did not end."""
    return bool(node["metadata"].get("annotations", {}).get(CORDONED) == MARK)


def differences(nodes: list[Json], layouts: DesiredMigLayouts) -> dict[str, Finding]:
    """Return what is to be done, by node (`MigTarget.difference`)."""
    wanted = targets(nodes, layouts)
    found = {
        name: wanted[name].difference(node)
        for node in nodes
        if (name := node["metadata"]["name"]) in wanted
    }
    return {name: finding for name, finding in found.items() if finding}
