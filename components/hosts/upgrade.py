"""What `kubeadm upgrade` does on a host, and how long it may take. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from components.charts.extra_values import plain
from components.hosts.settings.host import Host
from components.nodes.settings.taint import Effect
from components.settings.cluster import Cluster

APPLY_LIMIT, NODE_LIMIT = 3600, 300
"""Seconds of `kubeadm upgrade apply` and `node`, as `steps/library/upgraded.sh` has them."""
JOB = "CreateJob"
"""kubeadm's name of its check that a node takes a pod (kubernetes v1.34 cmd/kubeadm/app/phases/
upgrade/health.go)."""


def subcommand(cluster: Cluster, host: Host) -> str:
    """``apply`` on the host whose kubeadm upgrades the control plane, ``node`` on those that follow
    it; empty where kubeadm upgrades nothing.
    """
    if host == cluster.first_host:
        return "apply"
    return "node" if cluster.first_host is not None or cluster.joins(host) else ""


def seconds(cluster: Cluster, host: Host) -> int:
    """How long kubeadm may take beyond the installers."""
    return {"apply": APPLY_LIMIT, "node": NODE_LIMIT, "": 0}[subcommand(cluster, host)]


def upgrade_settings(cluster: Cluster, host: Host) -> dict[str, str]:
    """Settings of the step ``kubernetes`` for it.

    What init leaves out of its addons stays out; other phases of init are none of an upgrade
    (kubernetes v1.34 cmd/kubeadm/app/cmd/phases/workflow/runner.go refuses unknown names).
    """
    wanted, init = subcommand(cluster, host), cluster.kubernetes_packages.init
    if not wanted:
        return {}
    skipped = (
        [phase for phase in init.skip_phases if phase.split("/")[0] == "addon"] if init else []
    )
    return {
        "GC_UPGRADE": wanted,
        "GC_NODE": host.node,
        "GC_UPGRADE_IGNORED": ",".join(_ignored(cluster)),
        "GC_UPGRADE_SKIPPED": ",".join(skipped) if wanted == "apply" else "",
    }


def _ignored(cluster: Cluster) -> Iterator[str]:
    """Checks that the declaration ignores, and the one that none of its nodes can pass.

    ``all`` stands alone (kubernetes v1.34 cmd/kubeadm/app/apis/kubeadm/validation/validation.go,
    ValidateIgnorePreflightErrors).
    """
    init = cluster.kubernetes_packages.init
    if init is None:
        return
    declared = plain(init.node_registration).get("ignorePreflightErrors", [])
    yield from declared
    if "all" not in map(str.lower, declared) and not _takes_a_job(cluster):
        yield JOB


def _takes_a_job(cluster: Cluster) -> bool:
    """Whether a node is declared that takes kubeadm's Job, which tolerates a control plane only."""
    tainted = {
        node
        for pool in cluster.pools
        if any(taint.effect is not Effect.PREFER_NO_SCHEDULE for taint in pool.taints)
        for node in pool.node_names()
    }
    return any(host.node not in tainted for host in cluster.hosts)
