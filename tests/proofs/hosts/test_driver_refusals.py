"""Faults of the driver installation.

The loaded module may not match, and DKMS and the uninstaller hide failures.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running

pytestmark = pytest.mark.slow

VERSION, NEWER = "570.195.03", "580.65.06"
SHOWN = "/proc/driver/nvidia/version"
MARK = "/run/gpu-cluster/reboot-required"
SWITCH = "/sys/bus/pci/devices/0000:01:00.0"
SOMEBODYS = "PACKAGE_NAME=other\nPACKAGE_VERSION=1.0\nAUTOINSTALL=yes\nMAKE=false\n"


def declared(tools: dict[str, Any], drivers: dict[str, Any], **driver: Any) -> str:
    """Return the script of phase `prepare` that installs a driver from packages."""
    section = {"source": "package", "repository": drivers, **driver}
    return software.script({"packages": {"repository": tools}, "driver": section})


def switch(host: Running) -> None:
    """Add an NVSwitch to the host's PCI bus."""
    host.run(f"mkdir {SWITCH}; echo 0x10de >{SWITCH}/vendor; echo 0x068000 >{SWITCH}/class")


@pytest.mark.refusal(by="fake")
def test_daemons_of_a_newer_driver_wait_for_the_boot_that_loads_it(
    cluster: str, namespaces: None
) -> None:
    """After a driver update, daemons wait for the reboot that loads the new kernel module.

    Until then, the new daemons and nvidia-smi exit immediately.
    """
    host = software.start(cluster, "ubuntu")
    switch(host)
    with (
        software.tools("ubuntu") as tools,
        software.drivers("ubuntu", VERSION, NEWER) as drivers,
    ):
        first = host.apply(declared(tools, drivers, version=VERSION, fabricManager="off"))
        assert (first.status, first.errors) == (0, "")
        wanted = declared(tools, drivers, version=NEWER, removeEarlier=True)
        done = host.apply(wanted)
        assert (done.status, done.errors) == (0, "")
        assert host.read(MARK) == f"driver {VERSION} is loaded, {NEWER} is installed\n"
        assert host.run("nvidia-smi").status == 18
        assert host.run("/usr/bin/nv-fabricmanager").status == 1
        assert host.run("systemctl is-active nvidia-fabricmanager").output == "inactive\n"
        assert host.run("systemctl is-enabled nvidia-fabricmanager").output == "enabled\n"
        assert host.apply(wanted).output == "changed=0\n"

        host = software.start(cluster, "ubuntu")  # Restart the simulated host, as a reboot does.
        host.write("/etc/os-release", software.UBUNTU)
        assert NEWER in host.read(SHOWN)
        switch(host)  # The simulated PCI bus is lost at a restart, so the NVSwitch is added again.
        again = host.apply(wanted)
        assert (again.status, again.errors) == (0, "")
        assert host.run("systemctl is-active nvidia-fabricmanager").output == "active\n"
        assert host.run("nvidia-smi").status == 0
        assert host.apply(wanted).output == "changed=0\n"


@pytest.mark.refusal(by="fake")
def test_a_driver_is_judged_by_its_module_not_by_what_dkms_says_of_all(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "debian")
    module = "/lib/modules/$(uname -r)/updates/dkms/nvidia.ko"
    with software.tools("debian") as tools, software.drivers("debian", NEWER) as drivers:
        wanted = declared(tools, drivers, version=NEWER)
        assert host.apply(wanted).status == 0
        # A DKMS module of somebody else can't be built. This must not count as an error of the
        # NVIDIA driver.
        host.write("/usr/src/other-1.0/dkms.conf", SOMEBODYS)
        host.run(f"rm {module}")
        assert host.run("dkms autoinstall").status == 11
        host.run(f"rm {module}")
        rebuilt = host.apply(wanted)
        assert (rebuilt.status, rebuilt.errors) == (0, "")
        assert "driver built for kernel" in rebuilt.output
        # DKMS skips the NVIDIA module for this kernel and still exits with status 0.
        conf = f"/usr/src/nvidia-{NEWER}/dkms.conf"
        host.write(conf, f'{host.read(conf)}BUILD_EXCLUSIVE_KERNEL="^9[.]"\n')
        host.run(f"rm {module} /usr/src/other-1.0/dkms.conf")
        assert host.run("dkms autoinstall").status == 0
        refused = host.apply(wanted)
    assert refused.status == 1
    assert "the driver can't be built for kernel" in refused.errors


@pytest.mark.refusal(by="fake")
def test_an_uninstaller_that_did_nothing_is_named(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "debian")
    (host.root / "root/driver.run").write_bytes(catalogue.driver_runfile(NEWER))
    with software.tools("debian") as tools, software.drivers("debian", NEWER) as drivers:
        built = {"packages": {"repository": tools, "build": True}}
        assert host.apply(software.script(built)).status == 0
        assert host.run("sh /root/driver.run --silent --dkms").status == 0
        # nvidia-uninstall reads its list of installed files from this folder.
        host.run("rm -r /var/lib/nvidia")
        assert host.run("nvidia-uninstall --silent").status == 0
        refused = host.apply(declared(tools, drivers, version=NEWER, removeEarlier=True))
    assert refused.status == 1
    assert "nvidia-uninstall still installed after it had run" in refused.errors
