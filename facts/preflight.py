"""What is found on a host, held against what is declared: pure, no connection."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

import config

from .host_facts import HostFacts

SYSTEMS = ("debian", "ubuntu", "rhel", "rocky", "almalinux", "centos", "fedora", "amzn", "ol")
ARCHITECTURES = ("x86_64", "aarch64", "arm64")
KERNEL = (4, 18)
CONTAINERD = (1, 6)
DISK_MIB = 1024


class Severity(StrEnum):
    """``error``: the declaration can't come true on this host; ``warning``: told, not stopped."""

    ERROR = "error"
    WARNING = "warning"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing on a host that is not as wanted."""

    host: str
    found: str
    wanted: str
    cure: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"host {self.host}: found {self.found}; wanted {self.wanted}; {self.cure}"


def judge(host: config.Host, facts: HostFacts, cluster: config.Cluster) -> list[Finding]:
    """Everything on ``host`` that contradicts ``cluster`` or will probably do harm."""
    if facts.error:
        severity = Severity.ERROR if facts.refused else Severity.WARNING
        cure = f"see that ssh {host.user}@{host.address} -p {host.port} works from here"
        return [Finding(host.name, facts.error, "a host that answers", cure, severity)]
    found = [*_system(host, facts, cluster)]
    if host.role is config.Role.GPU_WORKER:
        found += [*_gpus(host, facts, cluster), *_driver(host, facts, cluster)]
        found += _runtime(host, facts, cluster)
    return found


def _system(host: config.Host, facts: HostFacts, cluster: config.Cluster) -> list[Finding]:
    found = []

    def tell(has: str, wanted: str, cure: str, severity: Severity = Severity.ERROR) -> None:
        found.append(Finding(host.name, has, wanted, cure, severity))

    if facts.os not in SYSTEMS:
        wanted = f"one of {', '.join(SYSTEMS)}"
        tell(f"operating system {facts.os or 'unknown'}", wanted, "use a supported system")
    if facts.arch not in ARCHITECTURES:
        tell(f"architecture {facts.arch}", "x86_64 or aarch64", "use a machine NVIDIA supports")
    if _version(facts.kernel) < KERNEL:
        tell(f"kernel {facts.kernel}", "4.18 or later", "upgrade the kernel")
    if facts.disk_free_mib < DISK_MIB:
        tell(f"{facts.disk_free_mib} MiB free in /var/lib", f"{DISK_MIB} MiB", "free space there")
    if facts.package_lock:
        cure = "wait until the package manager ends"
        tell(f"{facts.package_lock} held", "no package manager at work", cure, Severity.WARNING)
    for reason in facts.reboot if cluster.reboot.when is config.RebootWhen.NEVER else ():
        cure = "reboot it, or declare reboot.when: required"
        tell(f"a reboot pending ({reason})", "none", cure, Severity.WARNING)
    if facts.reboot_required:
        cure = "reboot the host before it gets work"
        tell("a reboot pending (/run/reboot-required)", "none", cure, Severity.WARNING)
    if facts.cgroup == 1 and not facts.simulated:
        cure = "boot with systemd.unified_cgroup_hierarchy=1"
        tell("cgroup v1", "cgroup v2 (v1 is in maintenance since 1.31)", cure, Severity.WARNING)
    return found


def _gpus(host: config.Host, facts: HostFacts, cluster: config.Cluster) -> list[Finding]:
    wanted = [
        pool.gpus_per_node
        for pool in cluster.pools
        if pool.nodes is not None and host.node in pool.node_names()
    ]
    least = wanted[0] if wanted else 1
    if facts.nvidia_devices >= least:
        return []
    cure = "look at lspci -d 10de: on the host, or correct gpusPerNode or the host's role"
    has = f"{facts.nvidia_devices} NVIDIA PCI devices"
    return [Finding(host.name, has, f"{least} or more", cure)]


def _driver(host: config.Host, facts: HostFacts, cluster: config.Cluster) -> list[Finding]:
    found = []
    driver = cluster.driver
    if driver.managed_by_operator:
        if facts.driver:
            cure = "remove it, or declare driver.source: preinstalled (a host's driver wins)"
            has = f"driver {facts.driver} on the host"
            found.append(Finding(host.name, has, "none", cure, Severity.WARNING))
    elif facts.driver is None:
        cure = "install the driver, or declare driver.source: operator"
        found.append(Finding(host.name, "no NVIDIA driver loaded", "a driver", cure))
    elif driver.version and facts.driver != driver.version:
        cure = "install that driver, or declare this one in driver.version"
        found.append(Finding(host.name, f"driver {facts.driver}", driver.version, cure))
    for module in facts.loaded:
        cure = "reboot the host after it is prepared"
        has = f"module {module} loaded"
        found.append(Finding(host.name, has, "the NVIDIA driver alone", cure, Severity.WARNING))
    return found


def _runtime(host: config.Host, facts: HostFacts, cluster: config.Cluster) -> list[Finding]:
    found = []
    if facts.containerd is None:
        found.append(Finding(host.name, "no containerd", "1.6 or later", "install containerd"))
    elif _version(facts.containerd) < CONTAINERD:
        has = f"containerd {facts.containerd}"
        found.append(Finding(host.name, has, "1.6 or later", "upgrade containerd"))
    by_operator = cluster.platform is config.Platform.GPU_OPERATOR and cluster.gpu_operator.toolkit
    if facts.toolkit is None and not by_operator:
        cure = "install the package nvidia-container-toolkit"
        found.append(Finding(host.name, "no nvidia-ctk", "1.18 or later", cure))
    return found


def _version(text: str) -> tuple[int, int]:
    """Major and minor of a version such as ``6.1.0-18-amd64``; (0, 0) where there is none."""
    parts = text.replace("-", ".").replace("~", ".").split(".")
    numbers = [int(part) for part in parts[:2] if part.isdigit()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
