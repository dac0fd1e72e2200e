"""What is found on a host, held against what is declared: pure, no connection.

Every refusal names the host, what was found, what was wanted and the cure.
"""

from __future__ import annotations

from components.charts.extra_values import plain
from components.desired.host import DesiredHost
from components.host_facts import HostFacts
from components.hosts.compatibility import cuda_of, driver_for, kernel_refused, runs, shown, version
from components.settings.hosts.driver import DriverSource
from components.settings.hosts.kubernetes_packages import KubernetesPackages
from components.settings.hosts.reboot import RebootWhen
from components.settings.hosts.runtime import Engine, ToolkitSource
from policies.facts.floors import Part, below, floor, wanted
from policies.faults import Fault, Severity

SYSTEMS = ("debian", "ubuntu", "rhel", "rocky", "almalinux", "centos", "fedora", "amzn", "ol")
ARCHITECTURES = ("x86_64", "aarch64", "arm64")
KERNEL = (4, 18)
ENGINES = {Engine.CONTAINERD: (1, 6), Engine.DOCKER: (20, 10), Engine.CRI_O: (1, 24)}
"""Oldest versions; K3s and RKE2 are looked for when their script runs."""
DISK_MIB = 1024
FAILS_ON_CGROUP_V1 = (1, 35)
"""The first Kubernetes whose kubelet and kubeadm refuse cgroup v1 by default (kubernetes v1.35.4
pkg/kubelet/apis/config/v1beta1/defaults.go, FailCgroupV1; CHANGELOG-1.35, SystemVerification).
Up to 1.34 both only warn."""
SKEW_LIMIT = 30.0
"""Seconds. Certificates and tokens of a cluster are not valid yet, or no longer, beyond some."""
FIRST_WITH_DNF = {
    "centos": "8",
    "rhel": "8",
    "rocky": "8",
    "almalinux": "8",
    "ol": "8",
    "amzn": "2023",
}
"""Earlier ones have yum alone, which no step of ours uses (dnf: RHEL 8, "Considerations in adopting
RHEL 8"; Amazon Linux 2023, "Comparing AL2 and AL2023")."""


def judge(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    """Return everything on a host that contradicts its declaration or will probably do harm."""
    if facts.error:
        severity = Severity.ERROR if facts.refused else Severity.WARNING
        wanted = facts.wanted or "a host that answers"
        ssh = f"`ssh -p {host.port} {host.user}@{host.address}`"
        cure = facts.cure or f"check that {ssh} works from here"
        return [Fault(f"host {host.name}", facts.error, wanted, cure, severity)]
    faults = [*_system(host, facts)]
    if host.role.has_gpus:
        faults += [*_gpus(host, facts), *_driver(host, facts)]
        faults += _runtime(host, facts)
    return faults


def _system(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    faults = []

    def tell(has: str, wanted: str, cure: str, severity: Severity = Severity.ERROR) -> None:
        faults.append(Fault(f"host {host.name}", has, wanted, cure, severity))

    if facts.os not in SYSTEMS:
        wanted = f"one of {', '.join(SYSTEMS)}"
        tell(f"operating system {facts.os or 'unknown'}", wanted, "use a supported system")
    if facts.arch not in ARCHITECTURES:
        tell(f"architecture {facts.arch}", "x86_64 or aarch64", "use a machine NVIDIA supports")
    with_dnf = FIRST_WITH_DNF.get(facts.os, "")
    if facts.os_version and version(facts.os_version) < version(with_dnf):
        has = f"{facts.os} {facts.os_version}, which has yum and no dnf"
        tell(has, f"{with_dnf} or later", "install a later system: packages come by apt or dnf")
    kernel = host.kernel.release or facts.kernel  # the declared one cures an older one
    if version(kernel) < KERNEL:
        tell(f"kernel {kernel}", "4.18 or later", "upgrade it, or declare kernel.release")
    if facts.disk_free_mib < DISK_MIB:
        tell(f"{facts.disk_free_mib} MiB free in /var/lib", f"{DISK_MIB} MiB", "free space there")
    if facts.package_lock:
        cure = "wait until the package manager ends"
        tell(f"{facts.package_lock} held", "no package manager at work", cure, Severity.WARNING)
    for reason in facts.reboot if host.reboot.when is RebootWhen.NEVER else ():
        cure = "reboot it, or declare reboot.when: required"
        tell(f"a reboot pending ({reason})", "none", cure, Severity.WARNING)
    if facts.reboot_required:
        cure = "reboot the host before it gets work"
        tell("a reboot pending (/run/reboot-required)", "none", cure, Severity.WARNING)
    if facts.skew is not None and abs(facts.skew) > SKEW_LIMIT:
        has = f"a clock {abs(facts.skew):.0f} s {'ahead' if facts.skew > 0 else 'behind'}"
        cure = "start a time service there (chronyd, systemd-timesyncd), or here"
        tell(has, f"at most {SKEW_LIMIT:.0f} s", cure, Severity.WARNING)
    for where in _rejected_by_sqv(host, facts):
        wanted = "its repository for debian13, which is signed anew (8793F200)"
        cure = f"declare cuda/repos/debian13/x86_64 with its own key in {where}"
        tell(f"Debian 13 with NVIDIA's repository of another system in {where}", wanted, cure)
    if facts.cgroup == 1 and not facts.simulated:
        faults += _cgroup_v1(host)
    return faults


def _cgroup_v1(host: DesiredHost) -> list[Fault]:
    """What cgroup v1 on a host means for the Kubernetes that is declared."""
    packages = host.kubernetes_packages
    cure = "boot with systemd.unified_cgroup_hierarchy=1"
    if version(packages.version or "") >= FAILS_ON_CGROUP_V1 and not _allows_cgroup_v1(packages):
        found = f"cgroup v1, on which kubelet {packages.version} does not start by itself"
        severity = Severity.ERROR if packages.init else Severity.WARNING
        cure += (
            "; or declare in kubernetesPackages.init kubeletConfiguration: {failCgroupV1: false} "
            "and nodeRegistration: {ignorePreflightErrors: [SystemVerification]}"
        )
        return [Fault(f"host {host.name}", found, "cgroup v2", cure, severity)]
    if host.takes_cgroup_v1:
        return []
    wanted = "cgroup v2 (v1 is in maintenance since 1.31)"
    return [Fault(f"host {host.name}", "cgroup v1", wanted, cure, Severity.WARNING)]


def _allows_cgroup_v1(packages: KubernetesPackages) -> bool:
    """Whether kubelet's and kubeadm's refusals of cgroup v1 are both declared away."""
    if packages.init is None:
        return False
    ignored = plain(packages.init.node_registration).get("ignorePreflightErrors", [])
    return plain(packages.init.kubelet_configuration).get("failCgroupV1") is False and bool(
        {"all", "systemverification"} & {str(each).lower() for each in ignored}
    )


def _rejected_by_sqv(host: DesiredHost, facts: HostFacts) -> list[str]:
    """Declared repositories whose signing key Debian 13 takes no more.

    Its apt verifies by sqv, which refuses keys bound by SHA-1 since 2026-02-01: that of NVIDIA's
    CUDA repositories (3BF863CC). Only debian13 has a new one (NVIDIA/cuda-repo-management issues
    30, 34 and 39).
    """
    if facts.os != "debian" or version(facts.os_version) < (13,):
        return []
    declared = {
        "driver.repository": host.driver.repository.apt,
        "cuda.repository": host.cuda.repository.apt,
        "packages.repository": host.packages.repository.apt,
    }
    return [
        where
        for where, repository in declared.items()
        if repository is not None
        and "/compute/cuda/repos/" in repository.url
        and "/debian13/" not in repository.url
    ]


def _gpus(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    least = 1 if host.gpus is None else host.gpus
    if facts.nvidia_devices >= least:
        return []
    cure = (
        "look at lspci -d 10de: on the host, declare what is off the bus (unhealthyDevices, "
        "missing), or correct gpusPerNode or the host's role"
    )
    has = f"{facts.nvidia_devices} NVIDIA PCI devices"
    return [Fault(f"host {host.name}", has, f"{least} or more", cure)]


def _driver(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    faults = []
    driver = host.driver
    sources = DriverSource
    if driver.source in (sources.OPERATOR, sources.DAEMONSET):
        if facts.driver and not facts.driver_container:
            cure = "declare driver.removeEarlier: true, or driver.source: preinstalled"
            has = f"driver {facts.driver} on the host, its module already loaded"
            if not driver.remove_earlier:
                faults.append(Fault(f"host {host.name}", has, "none", cure, Severity.WARNING))
    elif driver.source is not sources.PREINSTALLED:
        pass  # the preparation brings it
    elif facts.driver is None:
        cure = "install the driver, or declare another driver.source"
        faults.append(Fault(f"host {host.name}", "no NVIDIA driver loaded", "a driver", cure))
    elif driver.version and facts.driver != driver.version:
        cure = "install that driver, or declare this one in driver.version"
        faults.append(Fault(f"host {host.name}", f"driver {facts.driver}", driver.version, cure))
    faults += _pairs(host, facts)
    there = driver.version or facts.driver or ""
    faults += _floor(host, Part.DRIVER, there, Severity.WARNING)
    for module in facts.loaded:
        cure = "reboot the host after it is prepared"
        has = f"module {module} loaded"
        faults.append(
            Fault(f"host {host.name}", has, "the NVIDIA driver alone", cure, Severity.WARNING)
        )
    return faults


def _pairs(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    """Driver and CUDA, driver and kernel, driver and Secure Boot, where they don't fit."""
    faults = []
    driver = host.driver.version or facts.driver
    needed = {
        "validation.image": cuda_of(host.validation_image),
        "cuda.version": host.cuda.version or "",
    }
    for where, cuda in needed.items() if driver else ():
        if not runs(cuda, driver or ""):
            cure = f"declare that driver, or an older CUDA in {where}"
            has = f"driver {driver} for CUDA {cuda} of {where}"
            wanted = f"{shown(driver_for(cuda))} or later"
            faults.append(Fault(f"host {host.name}", has, wanted, cure))
    built_here = driver is not None and facts.driver != driver
    kernel = host.kernel.release or facts.kernel
    if driver and built_here and (why := kernel_refused(driver, kernel)):
        has = f"driver {driver} on kernel {kernel}, {why}"
        cure = "declare another driver.version, or another kernel.release"
        faults.append(Fault(f"host {host.name}", has, "a pair that builds", cure))
    if facts.secure_boot and facts.driver is None:
        # The GPU Operator's driver container signs no module that it builds: NVIDIA/gpu-operator
        # issue 266. Precompiled ones are signed where their distribution signs them.
        built = host.driver.managed_by_operator and not host.driver.precompiled
        severity = Severity.ERROR if built else Severity.WARNING
        cure = "turn it off in the firmware, or enrol the key that signs the driver (mokutil)"
        wanted = "it off, or a driver that is signed"
        faults.append(Fault(f"host {host.name}", "Secure Boot on", wanted, cure, severity))
    return faults


def _runtime(host: DesiredHost, facts: HostFacts) -> list[Fault]:
    faults = []
    runtime = host.runtime
    oldest = ENGINES.get(runtime.engine)
    if oldest is not None:
        name = runtime.engine.value
        has = {"containerd": facts.containerd, "docker": facts.docker, "cri-o": facts.crio}[name]
        wanted = f"{oldest[0]}.{oldest[1]} or later"
        if has is None and runtime.install is None:
            cure = f"install {name}, or declare runtime.install"
            faults.append(Fault(f"host {host.name}", f"no {name}", wanted, cure))
        elif has is not None and version(has) < oldest:
            faults.append(Fault(f"host {host.name}", f"{name} {has}", wanted, f"upgrade {name}"))
    by_us = runtime.toolkit.source is ToolkitSource.PACKAGE
    if facts.toolkit is None and host.uses_toolkit and not by_us:
        cure = "install nvidia-container-toolkit, or declare runtime.toolkit.source: package"
        least = f"{floor(Part.TOOLKIT).fixed} or later"
        faults.append(Fault(f"host {host.name}", "no nvidia-ctk", least, cure))
    if host.uses_toolkit:
        there = (runtime.toolkit.version if by_us else None) or facts.toolkit or ""
        faults += _floor(host, Part.TOOLKIT, there, Severity.ERROR)
    if host.uses_toolkit and facts.runtime_mode == "legacy":
        faults.append(_legacy(host))
    return faults


def _floor(host: DesiredHost, part: Part, there: str, severity: Severity) -> list[Fault]:
    """A version below the floor of the security bulletins, declared or found.

    A toolkit stops the run: a container gets out through it. A driver doesn't, since another one
    takes the GPUs of every pod there.
    """
    border = below(part, there)
    if border is None:
        return []
    cure = f"install or declare that version: {border}"
    found = f"{part} {there}"
    return [Fault(f"host {host.name}", found, wanted(part, there, border), cure, severity)]


def _legacy(host: DesiredHost) -> Fault:
    """Devices that a hook adds behind the engine's back: NVIDIA/nvidia-container-toolkit#48.

    In mode ``auto`` the toolkit generates CDI specifications since 1.18, older than our floor
    (its CHANGELOG, v1.18.0-rc.1, "Default to jit-cdi mode"; internal/info/auto.go).
    """
    return Fault(
        f"host {host.name}",
        "mode legacy of nvidia-container-runtime: running containers lose their GPUs when systemd "
        "reloads its units, as package upgrades make it do",
        "mode auto, which takes CDI",
        "`nvidia-ctk config --in-place --set nvidia-container-runtime.mode=auto` on the host",
        Severity.WARNING,
    )
