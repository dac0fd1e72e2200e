"""Checks of a host's inspected facts against its settings. Pure functions, no connection.

Every fault names the host, what was found, what was wanted and the cure. Checks that belong to one
step are in the module of that step (`gpu_cluster.hosts.steps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpu_cluster.base.compatibility import version
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.steps import every
from gpu_cluster.settings.hosts.reboot import RebootWhen
from gpu_rules.faults import Fault, FaultSeverity

SYSTEMS = ("debian", "ubuntu", "rhel", "rocky", "almalinux", "centos", "fedora", "amzn", "ol")
ARCHITECTURES = ("x86_64", "aarch64", "arm64")
DISK_MIB = 1024
SKEW_LIMIT = 30.0
"""Largest allowed clock skew in seconds; beyond it certificates and tokens may seem invalid."""
FIRST_WITH_DNF = {
    "centos": "8",
    "rhel": "8",
    "rocky": "8",
    "almalinux": "8",
    "ol": "8",
    "amzn": "2023",
}
"""First version of each distribution with dnf.

Older versions only have yum, which no step supports.
Sources: RHEL 8, "Considerations in adopting RHEL 8"; Amazon Linux 2023, "Comparing AL2 and AL2023".
"""


def validate_host(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    """Return the faults and warnings about a host whose facts don't fit its settings."""
    if facts.error:
        severity = FaultSeverity.ERROR if facts.refused else FaultSeverity.WARNING
        return [Fault(f"host {host.name}", facts.error, facts.wanted, facts.cure, severity)]
    if ended := _check_for_dnf(host, facts):
        # No step runs on such a system, so nobody could follow the cures of other faults.
        return [ended]
    faults = [
        *_check_system(host, facts),
        *(_check_gpus(host, facts) if host.role.has_gpus else ()),
    ]
    for step in every().values():
        if not step.engines or host.sections.runtime.engine in step.engines:
            faults += step.judge(host, facts)
    return faults


def _check_for_dnf(host: DesiredHost, facts: HostFacts) -> Fault | None:
    with_dnf = FIRST_WITH_DNF.get(facts.os, "")
    if not facts.os_version or version(facts.os_version) >= version(with_dnf):
        return None
    return Fault(
        f"host {host.name}",
        f"{_system_name(facts)}, which has yum and no dnf",
        f"{with_dnf} or later, which has dnf",
        "install a later system: packages come by apt or dnf",
    )


def _system_name(facts: HostFacts) -> str:
    return facts.os_name or f"{facts.os or 'unknown'} {facts.os_version}".strip()


def _check_system(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    faults = []

    def refuse(
        has: str, wanted: str, cure: str, severity: FaultSeverity = FaultSeverity.ERROR
    ) -> None:
        faults.append(Fault(f"host {host.name}", has, wanted, cure, severity))

    name = _system_name(facts)
    if facts.os not in SYSTEMS:
        refuse(f"operating system {name}", f"one of {', '.join(SYSTEMS)}", "use a supported system")
    if facts.image:
        has = f"{name}, whose packages come in an image ({facts.image})"
        refuse(
            has, "packages by apt or dnf", "use a system whose packages are installed one by one"
        )
    if facts.arch not in ARCHITECTURES:
        refuse(f"architecture {facts.arch}", "x86_64 or aarch64", "use a machine NVIDIA supports")
    if facts.disk_free_mib < DISK_MIB:
        refuse(f"{facts.disk_free_mib} MiB free in /var/lib", f"{DISK_MIB} MiB", "free space there")
    if facts.package_lock:
        cure = "wait until the package manager ends"
        refuse(
            f"{facts.package_lock} held", "no package manager at work", cure, FaultSeverity.WARNING
        )
    for reason in facts.reboot if host.sections.reboot.when is RebootWhen.NEVER else ():
        cure = "reboot it, or declare reboot.when: required"
        refuse(f"a reboot pending ({reason})", "none", cure, FaultSeverity.WARNING)
    if facts.reboot_required:
        cure = "reboot the host before it gets work"
        refuse("a reboot pending (/run/reboot-required)", "none", cure, FaultSeverity.WARNING)
    if facts.skew is not None and abs(facts.skew) > SKEW_LIMIT:
        has = f"a clock {abs(facts.skew):.0f} s {'ahead' if facts.skew > 0 else 'behind'}"
        cure = "start a time service there (chronyd, systemd-timesyncd), or here"
        refuse(has, f"at most {SKEW_LIMIT:.0f} s", cure, FaultSeverity.WARNING)
    for setting in _rejected_by_sqv(host, facts):
        refuse(
            f"Debian 13 with NVIDIA's repository of another system in {setting}",
            "NVIDIA's repository for debian13, which is signed with a newer key (8793F200)",
            f"declare cuda/repos/debian13/x86_64 with its own key in {setting}",
        )
    return faults


def _rejected_by_sqv(host: DesiredHost, facts: HostFacts) -> list[str]:
    """Return the settings whose repositories have a signing key that Debian 13 no longer accepts.

    Debian 13's apt verifies signatures with sqv, which rejects keys bound by SHA-1 since
    2026-02-01. The key of NVIDIA's CUDA repositories (3BF863CC) is such a key; only debian13 has a
    new one (NVIDIA/cuda-repo-management issues 30, 34 and 39).
    """
    if facts.os != "debian" or version(facts.os_version) < (13,):
        return []
    declared = {
        "driver.repository": host.sections.driver.repository.apt,
        "cuda.repository": host.sections.cuda.repository.apt,
        "packages.repository": host.sections.packages.repository.apt,
    }
    return [
        setting
        for setting, repository in declared.items()
        if repository is not None
        and "/compute/cuda/repos/" in repository.url
        and "/debian13/" not in repository.url
    ]


def _check_gpus(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    least = 1 if host.gpus is None else host.gpus
    if facts.nvidia_devices >= least:
        return []
    if facts.tegra:
        has = f"{facts.tegra}, whose GPU is on no PCI bus"
        wanted = "GPUs on the PCI bus: a Jetson's driver and libraries are part of its own system"
        return [Fault(f"host {host.name}", has, wanted, "take this host out of the stack file")]
    cure = (
        "check lspci -d 10de: on the host, declare GPUs that are missing on the bus "
        "(unhealthyDevices, missing), or correct gpusPerNode or the host's role"
    )
    has = f"{facts.nvidia_devices} NVIDIA PCI devices"
    return [Fault(f"host {host.name}", has, f"{least} or more", cure)]


def unequal(hosts: Iterable[DesiredHost], facts: Mapping[str, HostFacts]) -> list[str]:
    """Return one warning for each pool whose hosts run different kernels.

    A driver that builds on one kernel may fail to build on another, and a job that spans nodes runs
    on both. Pinning the kernel (`kernel.release`) avoids that. Hosts that were not inspected are
    ignored.
    """
    by_pool: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        host_facts = facts.get(host.name)
        if (
            host.pool
            and host_facts is not None
            and not host_facts.error
            and not host.sections.kernel.release
        ):
            kernels = by_pool.setdefault(host.pool, {})
            kernels.setdefault(host_facts.kernel, []).append(host.name)
    return [
        _kernels_warning(pool, kernels) for pool, kernels in by_pool.items() if len(kernels) > 1
    ]


def _kernels_warning(pool: str, kernels: Mapping[str, list[str]]) -> str:
    kernel_texts = "; ".join(
        f"{kernel} on {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
        for kernel, names in sorted(kernels.items())
    )
    return (
        f"pool {pool}: found {len(kernels)} kernels ({kernel_texts}); wanted one; "
        "declare kernel.release, or upgrade the hosts that are behind"
    )
