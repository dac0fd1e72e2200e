"""Step that installs Kubernetes' packages, joins a host to a cluster and runs `kubeadm upgrade`."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.base.compatibility import version
from gpu_cluster.charts.extra_values import plain
from gpu_cluster.desired.host import DesiredHost, Upgrade
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.kubeadm.configuration import SOCKETS, etcd_settings, join_configuration
from gpu_cluster.hosts.step import Given, Step, at_version, fault, repositories, said
from gpu_cluster.settings.hosts.kubeadm_init import Init
from gpu_cluster.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from gpu_rules.faults import Fault, FaultSeverity

NAMES = ("kubelet", "kubeadm", "kubectl")
APPLY_LIMIT, NODE_LIMIT = 3600, 300
"""Seconds for `kubeadm upgrade apply` and `kubeadm upgrade node`, as in `library/upgraded.sh`."""
SECONDS = {
    Upgrade.APPLY: APPLY_LIMIT,
    Upgrade.MEMBER: APPLY_LIMIT,
    Upgrade.NODE: NODE_LIMIT,
    Upgrade.NONE: 0,
}
JOB = "CreateJob"
"""Name of kubeadm's check that a node can run a pod.

Source: kubernetes v1.34 cmd/kubeadm/app/phases/upgrade/health.go.
"""
DNS = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
"""Names of kubeadm's checks of CoreDNS, which fail in a cluster without CoreDNS.

Source: kubernetes v1.34 cmd/kubeadm/app/phases/upgrade/preflight.go.
"""
PHASES = 32
"""First minor version whose `kubeadm upgrade` has phases.

Source: kubernetes/kubernetes pull request 126032. Earlier versions skip an add-on that does not
exist.
"""
FAILS_ON_CGROUP_V1 = (1, 35)
"""First Kubernetes version whose kubelet and kubeadm refuse cgroup v1 by default.

Up to 1.34 both only warn. Sources: kubernetes v1.35.4 pkg/kubelet/apis/config/v1beta1/defaults.go,
FailCgroupV1; CHANGELOG-1.35, SystemVerification.
"""


def _kubernetes_inputs(host: DesiredHost) -> Given | None:
    """Return the step's inputs.

    The number of package manager runs includes a separate run for kubeadm, which is installed
    before the other packages.
    """
    packages, engine = host.sections.kubernetes_packages, host.sections.runtime.engine
    join = host.join
    declared = packages.version
    if declared is None:
        return None

    def with_token(token: str) -> dict[str, str]:
        if join is None:
            return {}
        return {"GC_JOIN": join_configuration(declared, join, host, token, engine)}

    return Given(
        settings={
            "GC_KUBERNETES_PACKAGES": at_version(NAMES, declared),
            "GC_KUBERNETES_HELD": " ".join(NAMES),
            "GC_KUBERNETES_HOLD": said(packages.hold),
            "GC_JOIN": "",
            "GC_JOIN_ENDPOINT": join.endpoint if join else "",
            "GC_JOIN_LIMIT": str(join.timeout_seconds) if join else "",
            "GC_CRI_SOCKET": SOCKETS.get(engine, ""),
            **upgrade_settings(host),
        },
        repositories=repositories("kubernetes", packages.repository),
        runs=3,
        seconds=(join.timeout_seconds if join else 0) + SECONDS[host.upgrade],
        with_token=with_token,
    )


def upgrade_settings(host: DesiredHost) -> dict[str, str]:
    """Return the settings for `kubeadm upgrade`; empty if kubeadm upgrades nothing on the host."""
    kind, packages = host.upgrade, host.sections.kubernetes_packages
    if kind is Upgrade.NONE:
        return {}
    init, minor = packages.init, int((packages.version or "1.0").split(".")[1])
    skipped = ",".join(_addons_left_out(init)) if init and minor >= PHASES else ""
    return {
        "GC_UPGRADE": kind.value,
        "GC_NODE": host.node,
        "GC_UPGRADE_IGNORED": ",".join(_ignored_checks(init, host.takes_a_job)) if init else "",
        "GC_UPGRADE_SKIPPED": skipped if kind.is_control_plane else "",
        **(etcd_settings(init) if init and kind.is_control_plane else {}),
    }


def _addons_left_out(init: Init) -> list[str]:
    """Return the skipped phases of `kubeadm init` that `kubeadm upgrade` has, too.

    `kubeadm upgrade` rejects phases that it does not know (kubernetes v1.34
    cmd/kubeadm/app/cmd/phases/workflow/runner.go, computePhaseRunFlags).
    """
    return [phase for phase in init.skip_phases if phase.split("/")[0] == "addon"]


def _ignored_checks(init: Init, takes_a_job: bool) -> Iterator[str]:
    """Yield the preflight checks to ignore: declared ones and those that the cluster can't pass.

    The value `all` must be the only one (kubernetes v1.34
    cmd/kubeadm/app/apis/kubeadm/validation/validation.go, ValidateIgnorePreflightErrors).
    """
    declared = plain(init.node_registration).get("ignorePreflightErrors", [])
    yield from declared
    if "all" in map(str.lower, declared):
        return
    if not takes_a_job:
        yield JOB
    if not init.has_dns:
        yield from DNS


def _judge_kubernetes(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    """Yield a fault if the host has cgroup v1, which the declared Kubernetes may refuse."""
    if facts.cgroup != 1 or facts.simulated:
        return
    packages = host.sections.kubernetes_packages
    cure = "boot with systemd.unified_cgroup_hierarchy=1"
    allowed = facts.kubelet_cgroup_v1 or _allows_cgroup_v1(packages)
    if version(packages.version or "") >= FAILS_ON_CGROUP_V1 and not allowed:
        found = f"cgroup v1, on which kubelet {packages.version} does not start by itself"
        if packages.init:
            cure += (
                "; or declare in kubernetesPackages.init kubeletConfiguration: {failCgroupV1: "
                "false} and nodeRegistration: {ignorePreflightErrors: [SystemVerification]}"
            )
        yield fault(host, found, "cgroup v2", cure)
    elif not host.takes_cgroup_v1:
        wanted = "cgroup v2 (v1 is in maintenance since 1.31)"
        yield fault(host, "cgroup v1", wanted, cure, FaultSeverity.WARNING)


def _allows_cgroup_v1(packages: KubernetesPackagesSettings) -> bool:
    """Return whether the settings make both the kubelet and kubeadm accept cgroup v1."""
    if packages.init is None:
        return False
    ignored = plain(packages.init.node_registration).get("ignorePreflightErrors", [])
    return plain(packages.init.kubelet_configuration).get("failCgroupV1") is False and bool(
        {"all", "systemverification"} & {str(check).lower() for check in ignored}
    )


STEP = Step(
    does="installs Kubernetes' packages",
    given=_kubernetes_inputs,
    after="engine",
    files=("kubernetes", "library/joined", "library/etcd", "library/upgraded"),
    disrupts=("GC_KUBERNETES_PACKAGES",),
    judge=_judge_kubernetes,
)
