"""The distribution's own upgrade, a reload and a boot after `up`, by the real package managers.

Debian's and Ubuntu's rows run the real unattended-upgrades with these distributions' settings,
RHEL's the real dnf-automatic, Fedora's the real dnf 5.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue, rootfs
from gpu_cluster_lab.simulator.hosts.packages import Package
from tests.proofs.hosts import software
from tests.proofs.hosts import toolkit as container_toolkit
from tests.proofs.hosts.machine import Running
from tests.proofs.hosts.systems import SYSTEMS, System, boot_image

pytestmark = pytest.mark.full

DRIVER, NEWER = "580.65.06", "595.91.07"
POINT = "580.105.08"
"""Newer driver of the same branch, which is in the distribution's own updates too."""
TOOLKIT = "1.19.1"
LIMIT = 1800
"""Seconds that one command may run: a whole preparation takes minutes on a busy machine."""
MATCHING = ("nvidia-", "libnvidia", "cuda-drivers", "kmod-nvidia", "libnvsdm", "kube", "cri-tools")
UNATTENDED = "unattended-upgrades"
UBUNTU = """\
Unattended-Upgrade::Allowed-Origins {
	"${distro_id}:${distro_codename}";
	"${distro_id}:${distro_codename}-security";
	"${distro_id}ESMApps:${distro_codename}-apps-security";
	"${distro_id}ESM:${distro_codename}-infra-security";
};
Unattended-Upgrade::Package-Blacklist {
};
"""
"""Ubuntu's settings. Source: Ubuntu's package unattended-upgrades, 50unattended-upgrades.Ubuntu."""
AUTOMATIC = """\
[commands]
upgrade_type = default
random_sleep = 0
apply_updates = yes
[emitters]
emit_via = stdio
"""


@pytest.mark.promise(
    "After `up`, an upgrade of the whole system (Debian 12 or 13, Ubuntu 22.04, 24.04 or 26.04, "
    "RHEL 8, 9 or 10, Oracle Linux 9 with UEK, Amazon Linux 2023 or Fedora 42), a reload of units "
    "and a reboot leave driver, fabric manager, toolkit and Kubernetes as declared and bring in "
    "all other updates."
)
@pytest.mark.parametrize("name", SYSTEMS)
def test_what_up_installed_outlives_the_systems_own_upgrade(
    cluster: str, namespaces: None, name: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("upgraded", name)
    system = SYSTEMS[name]
    with ExitStack() as stack:
        host = installed_image(stack, cluster, system)
        container_toolkit.take_away(host)
        switch(host)
        scripts = prepared(stack, system)
        for script in scripts:
            done = host.apply(script)
            assert (done.status, done.errors) == (0, "")
        before = software.installed(host, system.root)
        publish(host, stack, system, ("site-tool", "1.1-1"), system.kernels[1])

        for command in system.upgrade:
            upgraded = host.run(command)
            assert upgraded.status == 0, f"{upgraded.output}\n{upgraded.errors}"
            updated = software.installed(host, system.root)["site-tool"]
            assert updated == "1.1-1", f"the first command brings updates: {upgraded.output}"
        after = software.installed(host, system.root)
        moved = {package for package in before if after.get(package) != before[package]}
        if system.archive:
            assert moved - {"site-tool"}, "Debian's own archive has updates for the host's packages"
        assert not [package for package in moved if package.startswith(MATCHING)]
        host.run("systemctl daemon-reload")

        host = started(cluster, system)  # A boot.
        assert host.run("uname -r").output == f"{system.kernels[not system.keeps]}\n"
        switch(host)  # The simulated boot makes GPUs only.
        host.run("systemctl start nvidia-fabricmanager")
        assert DRIVER in host.read("/proc/driver/nvidia/version")
        state = "systemctl is-active nvidia-fabricmanager nvidia-imex nvidia-persistenced"
        assert host.run(state).output == "active\n" * 3
        assert software.drift(host) == software.drift(host, "runtime") == ()
        for script in scripts:
            again = host.apply(script)
            assert again.output == "changed=0\n", again.errors


def started(cluster: str, system: System) -> Running:
    """Start or restart the host."""
    return replace(software.start(cluster, system.root), limit=LIMIT)


def installed_image(stack: ExitStack, cluster: str, system: System) -> Running:
    """Start a host with the system's own kernel packages and a package that nobody pins."""
    host = started(cluster, system)
    if system.apt:  # The real program, from Debian's archive.
        host.write("/etc/apt/sources.list", built_from(system))
        host.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")  # No second sshd.
        host.run("chmod 755 /usr/sbin/policy-rc.d")
        quiet = "DEBIAN_FRONTEND=noninteractive apt-get -q -y"
        done = host.run(f"{quiet} update && {quiet} install --no-install-recommends {UNATTENDED}")
        if done.status != 0:
            pytest.skip(f"Debian's archive can't be reached: {done.errors.strip()[-200:]}")
    boot_image(host, system)
    host = started(cluster, system)
    publish(host, stack, system, ("site-tool", "1.0-1"), system.kernels[0])
    words = " ".join(system.image())
    install = f"apt-get -q update && apt-get -y -q install {words}"
    done = host.run(install if system.apt else f"dnf -y install {words}")
    assert done.status == 0, f"{done.output}\n{done.errors}"
    if system.apt and "ubuntu" in system.about:
        host.write(f"/etc/apt/apt.conf.d/50{UNATTENDED}", UBUNTU)
    if not system.apt:
        host.write("/etc/dnf/automatic.conf", AUTOMATIC)
    return host


def built_from(system: System) -> str:
    """Return the source line of Debian's archive that the host's root was built from."""
    suite = {"debian": rootfs.SUITE, "debian13": "trixie"}[system.root]
    return (rootfs.debian_root(lambda _: None, suite) / "etc/apt/sources.list").read_text()


def archive(system: System) -> str:
    """Return the source line of the archive's suite with updates, if the system has it."""
    if not system.archive:
        return ""
    kind, url, suite, *components = built_from(system).split()
    return f"{kind} {url}{system.archive} {suite}{system.archive} {' '.join(components)}\n"


def publish(
    host: Running, stack: ExitStack, system: System, tool: tuple[str, str], kernel: str
) -> None:
    """Give the host the distribution's repository with a kernel, a driver and another package."""
    packages = [
        Package(*tool),
        *system.kernel_packages(kernel),
        *catalogue.build_tools("debian" if system.apt else "rocky"),
    ]
    newer = kernel == system.kernels[1]
    if newer and system.apt:
        packages += system.drivers(POINT)
    served = stack.enter_context(
        software.serving(system.root, packages, release=system.origins if system.apt else "")
    )
    source = served[software.FORMATS[system.root]]
    if system.apt:
        host.run("rm -f /etc/apt/sources.list.d/debian.sources")
        # Without these lines, no upgrade by what the archive has today.
        host.write("/etc/apt/sources.list", archive(system) if newer else "")
        host.write("/etc/apt/keyrings/site.asc", source["key"])
        line = f"deb [signed-by=/etc/apt/keyrings/site.asc] {source['url']} ./\n"
        host.write("/etc/apt/sources.list.d/site.list", line)
    else:
        host.write("/etc/pki/rpm-gpg/site.asc", source["key"])
        lines = f"name=site\nbaseurl={source['url']}\ngpgkey=file:///etc/pki/rpm-gpg/site.asc\n"
        host.write("/etc/yum.repos.d/site.repo", f"[site]\n{lines}")


def prepared(stack: ExitStack, system: System) -> tuple[str, str]:
    """Return the scripts of both phases, with repositories that have newer versions of all."""
    versions = (DRIVER, POINT, NEWER)
    drivers = software.serving(
        system.root, system.drivers(*versions), modules=system.streams(*versions)
    )
    kubernetes = software.serving(system.root, catalogue.kubernetes("1.34.4", "1.34.9"))
    sections: dict[str, Any] = {
        "packages": {"build": True, "install": ["site-tool"]},
        "driver": {
            "source": "package",
            "version": DRIVER,
            "fabricManager": "on",
            "imexNodes": ["192.0.2.1"],
            "repository": stack.enter_context(drivers),
        },
        "kubernetesPackages": {
            "version": "1.34.4",
            "repository": stack.enter_context(kubernetes),
        },
    }
    if system.keeps:
        sections["kernel"] = {"release": system.kernels[0]}
        if not system.apt:
            sections["kernel"]["flavor"] = system.kernel
    url, key = stack.enter_context(container_toolkit.serving(system.root))
    runtime = container_toolkit.wanted(system.root, url, key, version=TOOLKIT)
    return software.script(sections), runtime


def switch(host: Running) -> None:
    """Give the host an NVSwitch, without which fabric manager doesn't start."""
    device = "/sys/bus/pci/devices/0000:01:00.0"
    host.run(f"mkdir -p {device}; echo 0x10de >{device}/vendor; echo 0x068000 >{device}/class")
