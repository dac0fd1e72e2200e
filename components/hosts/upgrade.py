"""What `kubeadm upgrade` does on a host, and how long it may take. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from components.charts.extra_values import plain
from components.hosts.settings.host import Host
from components.hosts.settings.new_cluster import Init
from components.nodes.settings.taint import Effect
from components.settings.cluster import Cluster

APPLY_LIMIT, NODE_LIMIT = 3600, 300
"""Seconds of `kubeadm upgrade apply` and `node`, as `steps/library/upgraded.sh` has them."""
JOB = "CreateJob"
"""kubeadm's name of its check that a node takes a pod (kubernetes v1.34 cmd/kubeadm/app/phases/
upgrade/health.go)."""
DNS = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
"""Of its checks of CoreDNS, which fail where there is none (phases/upgrade/preflight.go)."""
PHASES = 32
"""First minor version whose upgrade has phases (kubernetes/kubernetes pull request 126032); those
before leave out an addon that isn't there."""


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
    """Settings of the step ``kubernetes`` for it; none where kubeadm upgrades nothing."""
    wanted, packages = subcommand(cluster, host), cluster.kubernetes_packages
    if not wanted:
        return {}
    init, minor = packages.init, int((packages.version or "1.0").split(".")[1])
    skipped = ",".join(_addons_left_out(init)) if init and minor >= PHASES else ""
    return {
        "GC_UPGRADE": wanted,
        "GC_NODE": host.node,
        "GC_UPGRADE_IGNORED": ",".join(_ignored(cluster, init)) if init else "",
        "GC_UPGRADE_SKIPPED": skipped if wanted == "apply" else "",
    }


def _addons_left_out(init: Init) -> list[str]:
    """Phases of init that an upgrade has, too.

    Others it doesn't know, and refuses (kubernetes v1.34 cmd/kubeadm/app/cmd/phases/workflow/
    runner.go, computePhaseRunFlags).
    """
    return [phase for phase in init.skip_phases if phase.split("/")[0] == "addon"]


def _ignored(cluster: Cluster, init: Init) -> Iterator[str]:
    """Checks that the declaration ignores, and those that what it declares can't pass.

    ``all`` stands alone (kubernetes v1.34 cmd/kubeadm/app/apis/kubeadm/validation/validation.go,
    ValidateIgnorePreflightErrors).
    """
    declared = plain(init.node_registration).get("ignorePreflightErrors", [])
    yield from declared
    if "all" in map(str.lower, declared):
        return
    if not _takes_a_job(cluster):
        yield JOB
    dns = plain(init.cluster_configuration).get("dns", {})
    if dns.get("disabled") or {"addon", "addon/all", "addon/coredns"} & set(init.skip_phases):
        yield from DNS


def _takes_a_job(cluster: Cluster) -> bool:
    """Whether a node is declared that takes kubeadm's Job, which tolerates a control plane only."""
    tainted = {
        node
        for pool in cluster.pools
        if any(taint.effect is not Effect.PREFER_NO_SCHEDULE for taint in pool.taints)
        for node in pool.node_names()
    }
    return any(host.node not in tainted for host in cluster.hosts)
