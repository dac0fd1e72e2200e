"""The distribution's own upgrade, a reload and a boot after `up`, by the real package managers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from lab.simulator.hosts import catalogue
from lab.simulator.hosts.packages import Package
from tests.proofs.hosts import software
from tests.proofs.hosts import toolkit as container_toolkit
from tests.proofs.hosts.machine import Running

pytestmark = pytest.mark.full

DRIVER, NEWER = "580.65.06", "595.91.07"
TOOLKIT = {"debian": "1.19.1", "rocky": container_toolkit.VERSION}
"""Declared toolkit: an older one where it is held, which is only by apt."""
UPGRADES = {
    "debian": (
        "apt-get -q update && apt-get -y -q upgrade && apt-get -y -q dist-upgrade && "
        "systemctl daemon-reload"
    ),
    # best=True is RHEL's default: an update that can't be installed fails the whole transaction.
    "rocky": "dnf -y --setopt=best=True upgrade && systemctl daemon-reload",
}


@pytest.mark.promise(
    "After `up`, an upgrade of the whole system, a reload of units and a reboot leave driver, "
    "fabric manager, toolkit and Kubernetes as declared and bring in all other updates."
)
@pytest.mark.parametrize("system", UPGRADES)
def test_what_up_installed_outlives_the_systems_own_upgrade(
    cluster: str, namespaces: None, system: str
) -> None:
    with ExitStack() as stack:

        def serve(*packages: Package) -> dict[str, Any]:
            return stack.enter_context(software.serving(system, packages))

        host = software.start(cluster, system)
        bare_toolkit(host)
        switch(host)
        unrelated = [Package("site-tool", version) for version in ("1.0-1", "1.1-1")]
        sections = {
            "packages": {
                "build": True,
                "install": ["site-tool"],
                "repository": serve(
                    *catalogue.build_tools(system), *software.headers(system), unrelated[0]
                ),
            },
            "driver": {
                "source": "package",
                "version": DRIVER,
                "fabricManager": "on",
                "imexNodes": ["192.0.2.1"],
                "repository": stack.enter_context(software.drivers(system, DRIVER, NEWER)),
            },
            "kubernetesPackages": {
                "version": "1.34.4",
                "repository": serve(*catalogue.kubernetes("1.34.4", "1.34.9")),
            },
        }
        prepare = software.script(sections)
        url, key = stack.enter_context(container_toolkit.serving(system))
        runtime = container_toolkit.wanted(system, url, key, version=TOOLKIT[system])
        for script in (prepare, runtime):
            done = host.apply(script)
            assert done.errors == "", done.errors
            assert done.status == 0
        before = software.installed(host, system)
        beside = {name for name in before if before[name].startswith((DRIVER, TOOLKIT[system]))}
        assert {"nvidia-imex", "nvidia-container-toolkit"} <= beside
        publish(host, system, stack, unrelated[1])

        upgraded = host.run(UPGRADES[system])
        assert upgraded.status == 0, upgraded
        after = software.installed(host, system)
        assert {name: after[name] for name in before if after[name] != before[name]} == {
            "site-tool": "1.1-1"
        }
        host = software.start(cluster, system)  # A boot.
        switch(host)  # The simulated boot makes GPUs only.
        host.run("systemctl start nvidia-fabricmanager")
        assert DRIVER in host.read("/proc/driver/nvidia/version")
        state = "systemctl is-active nvidia-fabricmanager nvidia-imex nvidia-persistenced"
        assert host.run(state).output == "active\n" * 3
        assert software.drift(host) == software.drift(host, "runtime") == ()
        assert host.apply(prepare).output == "changed=0\n"
        assert host.apply(runtime).output == "changed=0\n"


def bare_toolkit(host: Running) -> None:
    """Take the toolkit off the host, so that its package can bring it."""
    host.run(f"mv /usr/bin/nvidia-ctk {container_toolkit.KEPT}")
    host.run("rm /usr/bin/nvidia-container-runtime")


def switch(host: Running) -> None:
    """Give the host an NVSwitch, without which fabric manager doesn't start."""
    device = "/sys/bus/pci/devices/0000:01:00.0"
    host.run(f"mkdir -p {device}; echo 0x10de >{device}/vendor; echo 0x068000 >{device}/class")


def publish(host: Running, system: str, stack: ExitStack, package: Package) -> None:
    """Give the host a further repository of its distribution with a newer package."""
    served = stack.enter_context(software.serving(system, [package]))
    source = served[software.FORMATS[system]]
    if system == "debian":
        host.write("/etc/apt/sources.list", "")  # No upgrade by what the archive has today.
        host.write("/etc/apt/keyrings/site.asc", source["key"])
        line = f"deb [signed-by=/etc/apt/keyrings/site.asc] {source['url']} ./\n"
        host.write("/etc/apt/sources.list.d/site.list", line)
    else:
        host.write("/etc/pki/rpm-gpg/site.asc", source["key"])
        lines = f"name=site\nbaseurl={source['url']}\ngpgkey=file:///etc/pki/rpm-gpg/site.asc\n"
        host.write("/etc/yum.repos.d/site.repo", f"[site]\n{lines}")
