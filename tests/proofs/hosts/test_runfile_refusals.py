"""The fake driver installer refuses what NVIDIA's installer refuses, and host scripts avoid it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import served
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Result, Running

pytestmark = pytest.mark.slow

VERSION = "580.65.06"
OLD = "440.64"
SHOWN = "/proc/driver/nvidia/version"
MARK = "/run/gpu-cluster/reboot-required"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
INSTALL = "sh /root/driver.run --silent"


@pytest.fixture
def host(cluster: str, namespaces: None) -> Iterator[Running]:
    """Return a host with compilers, kernel headers and the driver installer in /root/driver.run."""
    machine = software.start(cluster, "debian")
    with software.tools("debian") as tools:
        assert (
            machine.apply(software.script({"packages": {**section(tools), "build": True}})).status
            == 0
        )
        (machine.root / "root/driver.run").write_bytes(catalogue.driver_runfile(VERSION))
        yield machine


def section(tools: dict[str, Any]) -> dict[str, Any]:
    return {"repository": tools}


REFUSALS = {
    "running X": ("echo 1 >/tmp/.X0-lock", INSTALL, "running an X server"),
    "module in use": (
        "mkdir -p /sys/module/nvidia; touch /run/nvidia-in-use",
        INSTALL,
        "appears to be already loaded",
    ),
    "nouveau": ("modprobe nouveau", INSTALL, "Nouveau kernel driver is currently in use"),
    "no headers": ("rm -r /lib/modules/*/build", INSTALL, "Unable to find the kernel source tree"),
    "no compiler": ("rm /usr/bin/gcc", INSTALL, "Unable to find the development tool"),
    "Secure Boot": (
        f"mkdir -p {SECURE_BOOT.rpartition('/')[0]}; printf '\\6\\0\\0\\0\\1' >{SECURE_BOOT}",
        INSTALL,
        "Unable to load the kernel module 'nvidia.ko'",
    ),
    "an unknown option": ("true", f"{INSTALL} --kernel-module=open", "Invalid commandline"),
}


@pytest.mark.refusal(by="fake")
@pytest.mark.full
@pytest.mark.parametrize("name", REFUSALS)
def test_an_installer_refuses_what_the_real_one_refuses(host: Running, name: str) -> None:
    before, command, said = REFUSALS[name]
    host.run(before)
    refused = host.run(command)
    assert refused.status == 1
    assert said in refused.errors
    assert not host.exists("/usr/bin/nvidia-smi")


@pytest.mark.refusal(by="fake")
@pytest.mark.full
def test_options_are_those_of_the_installers_version(host: Running) -> None:
    (host.root / "root/old.run").write_bytes(catalogue.driver_runfile(OLD))
    for option in ("--kernel-module-type=proprietary", "--skip-module-load"):
        refused = host.run(f"sh /root/old.run --silent {option}")
        assert (refused.status, "Invalid commandline" in refused.errors) == (1, True)
        assert host.run(f"{INSTALL} {option}").status == 0
        host.run("nvidia-uninstall --silent")


@pytest.mark.parametrize(
    ("version", "device", "kind"),
    [
        (OLD, "0x1db1", "Kernel Module"),
        ("535.216.01", "0x20b0", "Open Kernel Module"),
        (VERSION, "0x1db1", "Kernel Module"),
        (VERSION, "0x2330", "Open Kernel Module"),
    ],
)
def test_each_version_is_given_options_that_it_has(
    cluster: str, namespaces: None, tmp_path: Path, version: str, device: str, kind: str
) -> None:
    host = software.start(cluster, "debian")
    host.run(f"for each in /sys/bus/pci/devices/*/device; do echo {device} >$each; done")
    with software.tools("debian") as tools, served(tmp_path) as url:
        sections = runfile(tmp_path, url, tools, version)
        done = host.apply(software.script(sections))
        assert (done.status, done.errors) == (0, "")
        assert f"{kind} " in host.read(SHOWN)
        assert ("Open" in host.read(SHOWN)) == ("Open" in kind)
        assert host.apply(software.script(sections)).output == "changed=0\n"


def runfile(folder: Path, url: str, tools: dict[str, Any], version: str) -> dict[str, Any]:
    """Write the installer to the folder of the HTTP server; return sections that declare it."""
    data = catalogue.driver_runfile(version)
    (folder / "driver.run").write_bytes(data)
    file = {"locations": [f"{url}/driver.run"], "sha256": hashlib.sha256(data).hexdigest()}
    driver = {"source": "runfile", "version": version, "runfile": file}
    return {"packages": section(tools), "driver": driver}


def test_an_installer_that_must_load_waits_for_a_boot_without_nouveau(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    host = software.start(cluster, "debian")
    host.run("modprobe nouveau")
    with software.tools("debian") as tools, served(tmp_path) as url:
        script = software.script(runfile(tmp_path, url, tools, "535.216.01"))
        asked = host.apply(script)
        assert (asked.status, asked.errors) == (0, "")
        assert "nouveau is loaded" in host.read(MARK)
        assert not host.exists("/usr/bin/nvidia-smi")
        # Restart the simulated host, as a reboot does.
        host = software.start(host.cluster, "debian")
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert "535.216.01" in host.read(SHOWN)


def test_an_unsigned_module_under_secure_boot_is_named_with_its_cure(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    host = software.start(cluster, "debian")
    host.run(REFUSALS["Secure Boot"][0])
    with software.tools("debian") as tools, served(tmp_path) as url:
        refused = host.apply(software.script(runfile(tmp_path, url, tools, VERSION)))
    assert refused.status == 1
    assert "Secure Boot" in refused.errors
    assert not host.exists("/usr/bin/nvidia-smi")


@pytest.mark.full
@pytest.mark.parametrize("in_use", [False, True])
def test_what_used_the_module_is_back_after_another_driver(
    cluster: str, namespaces: None, tmp_path: Path, in_use: bool
) -> None:
    host = software.start(cluster, "ubuntu")
    earlier = "570.195.03"
    with (
        software.tools("ubuntu") as tools,
        software.drivers("ubuntu", earlier, VERSION) as drivers,
        served(tmp_path) as url,
    ):

        def apply(version: str) -> Result:
            sections = runfile(tmp_path, url, tools, version)
            sections["driver"] |= {"repository": drivers, "imexNodes": ["192.0.2.1"]}
            return host.apply(software.script(sections))

        first = apply(earlier)
        assert (first.status, first.errors) == (0, "")
        host.run("modprobe nvidia_peermem")
        if in_use:
            host.run("touch /run/nvidia-in-use")
        second = apply(VERSION)
    if in_use:
        assert second.status == 1
        assert "in use" in second.errors
    else:
        assert (second.status, second.errors) == (0, "")
    assert (earlier if in_use else VERSION) in host.read(SHOWN)
    assert host.exists("/sys/module/nvidia_peermem")
    for unit in ("nvidia-imex", "nvidia-persistenced"):
        assert host.run(f"systemctl is-active {unit}").output == "active\n"
