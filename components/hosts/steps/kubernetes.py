"""Kubernetes' packages, how a host joins a cluster, and what `kubeadm upgrade` does there."""

from __future__ import annotations

from collections.abc import Iterator

from components.charts.extra_values import plain
from components.desired.host import DesiredHost, Upgrade
from components.host_facts import HostFacts
from components.hosts.compatibility import version
from components.hosts.kubeadm.configuration import SOCKETS, join_configuration
from components.hosts.step import Given, Step, at_version, fault, repositories, said
from components.settings.hosts.kubeadm_init import Init
from components.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from policies.faults import Fault, Severity

NAMES = ("kubelet", "kubeadm", "kubectl")
APPLY_LIMIT, NODE_LIMIT = 3600, 300
"""Seconds of `kubeadm upgrade apply` and `node`, as `library/upgraded.sh` has them."""
SECONDS = {Upgrade.APPLY: APPLY_LIMIT, Upgrade.NODE: NODE_LIMIT, Upgrade.NONE: 0}
JOB = "CreateJob"
"""kubeadm's name of its check that a node takes a pod (kubernetes v1.34 cmd/kubeadm/app/phases/
upgrade/health.go)."""
DNS = ("CoreDNSUnsupportedPlugins", "CoreDNSMigration")
"""Of its checks of CoreDNS, which fail where there is none (phases/upgrade/preflight.go)."""
PHASES = 32
"""First minor version whose upgrade has phases (kubernetes/kubernetes pull request 126032); those
before leave out an addon that isn't there."""
FAILS_ON_CGROUP_V1 = (1, 35)
"""The first Kubernetes whose kubelet and kubeadm refuse cgroup v1 by default (kubernetes v1.35.4
pkg/kubelet/apis/config/v1beta1/defaults.go, FailCgroupV1; CHANGELOG-1.35, SystemVerification).
Up to 1.34 both only warn."""


def _given(host: DesiredHost) -> Given | None:
    """kubeadm comes before the other packages, which is a run of its own."""
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
    """Return the settings for `kubeadm upgrade`; none if kubeadm upgrades nothing."""
    wanted, packages = host.upgrade, host.sections.kubernetes_packages
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
    """Return the phases of init that an upgrade has, too.

    Others it doesn't know, and refuses (kubernetes v1.34 cmd/kubeadm/app/cmd/phases/workflow/
    runner.go, computePhaseRunFlags).
    """
    return [phase for phase in init.skip_phases if phase.split("/")[0] == "addon"]


def _ignored(init: Init, takes_a_job: bool) -> Iterator[str]:
    """Yield the checks that the declaration ignores, and those that it can't pass.

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


def _judge(host: DesiredHost, facts: HostFacts) -> Iterator[Fault]:
    """Yield what cgroup v1 on a host means for the Kubernetes that is declared."""
    if facts.cgroup != 1 or facts.simulated:
        return
    packages = host.sections.kubernetes_packages
    cure = "boot with systemd.unified_cgroup_hierarchy=1"
    if version(packages.version or "") >= FAILS_ON_CGROUP_V1 and not _allows_cgroup_v1(packages):
        found = f"cgroup v1, on which kubelet {packages.version} does not start by itself"
        severity = Severity.ERROR if packages.init else Severity.WARNING
        cure += (
            "; or declare in kubernetesPackages.init kubeletConfiguration: {failCgroupV1: false} "
            "and nodeRegistration: {ignorePreflightErrors: [SystemVerification]}"
        )
        yield fault(host, found, "cgroup v2", cure, severity)
    elif not host.takes_cgroup_v1:
        wanted = "cgroup v2 (v1 is in maintenance since 1.31)"
        yield fault(host, "cgroup v1", wanted, cure, Severity.WARNING)


def _allows_cgroup_v1(packages: KubernetesPackagesSettings) -> bool:
    """Return whether kubelet's and kubeadm's refusals of cgroup v1 are both declared away."""
    if packages.init is None:
        return False
    ignored = plain(packages.init.node_registration).get("ignorePreflightErrors", [])
    return plain(packages.init.kubelet_configuration).get("failCgroupV1") is False and bool(
        {"all", "systemverification"} & {str(each).lower() for each in ignored}
    )


STEP = Step(
    given=_given,
    after="engine",
    files=("kubernetes", "library/joined", "library/upgraded"),
    disrupts=("GC_KUBERNETES_PACKAGES",),
    judge=_judge,
)
