"""What `kubeadm upgrade` does on a host, and how long it may take. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from components.charts.extra_values import plain
from components.desired.host import DesiredHost, Upgrade
from components.settings.hosts.new_cluster import Init

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


SECONDS = {Upgrade.APPLY: APPLY_LIMIT, Upgrade.NODE: NODE_LIMIT, Upgrade.NONE: 0}
"""Seconds that kubeadm may take on a host in addition to the installers."""


def upgrade_settings(host: DesiredHost) -> dict[str, str]:
    """Return the settings of the step ``kubernetes`` for it; none if kubeadm upgrades nothing."""
    wanted, packages = host.upgrade, host.kubernetes_packages
    if wanted is Upgrade.NONE:
        return {}
    init, minor = packages.init, int((packages.version or "1.0").split(".")[1])
    skipped = ",".join(_addons_left_out(init)) if init and minor >= PHASES else ""
    return {
        "GC_UPGRADE": wanted.value,
        "GC_NODE": host.node,
        "GC_UPGRADE_IGNORED": ",".join(_ignored(init, host.takes_a_job)) if init else "",
        "GC_UPGRADE_SKIPPED": skipped if wanted is Upgrade.APPLY else "",
    }


def _addons_left_out(init: Init) -> list[str]:
    """Phases of init that an upgrade has, too.

    Others it doesn't know, and refuses (kubernetes v1.34 cmd/kubeadm/app/cmd/phases/workflow/
    runner.go, computePhaseRunFlags).
    """
    return [phase for phase in init.skip_phases if phase.split("/")[0] == "addon"]


def _ignored(init: Init, takes_a_job: bool) -> Iterator[str]:
    """Checks that the declaration ignores, and those that what it declares can't pass.

    ``all`` stands alone (kubernetes v1.34 cmd/kubeadm/app/apis/kubeadm/validation/validation.go,
    ValidateIgnorePreflightErrors).
    """
    declared = plain(init.node_registration).get("ignorePreflightErrors", [])
    yield from declared
    if "all" in map(str.lower, declared):
        return
    if not takes_a_job:
        yield JOB
    dns = plain(init.cluster_configuration).get("dns", {})
    if dns.get("disabled") or {"addon", "addon/all", "addon/coredns"} & set(init.skip_phases):
        yield from DNS
