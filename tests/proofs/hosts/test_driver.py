"""Install the NVIDIA driver from a runfile: replace another driver, handle daemons, refuse."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import served
from tests.fixtures.clusters import INSTALLERS
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running, differences

VERSION = "580.65.06"
NEWER = "595.91.07"
SHOWN = "/proc/driver/nvidia/version"
MARK = "/run/gpu-cluster/reboot-required"
DISPLAY_MANAGER = "[Service]\nExecStart=/bin/sleep 3600\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture
def host(cluster: str, namespaces: None) -> Running:
    return software.start(cluster, "debian")


@pytest.fixture
def tools() -> Iterator[dict[str, Any]]:
    """Serve a package repository with the compilers and headers that a module build needs."""
    with software.serving(
        "debian", [*catalogue.build_tools(), *catalogue.headers_apt()]
    ) as repository:
        yield {"repository": repository}


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """Serve NVIDIA's installers of two driver versions over HTTP, as a mirror does."""
    for version in (VERSION, NEWER):
        (tmp_path / f"{version}.run").write_bytes(catalogue.driver_runfile(version))
    with served(tmp_path) as url:
        yield url


def digest(version: str) -> str:
    return hashlib.sha256(catalogue.driver_runfile(version)).hexdigest()


def runfile(tools: dict[str, Any], *locations: str, **driver: Any) -> dict[str, Any]:
    """Return sections of a stack file that declare a driver from a runfile."""
    version = driver.setdefault("version", VERSION)
    file = {"locations": list(locations), "sha256": digest(version)}
    return {"packages": tools, "driver": {"source": "runfile", "runfile": file, **driver}}


def test_a_runfile_is_verified_run_once_and_taken_back(
    host: Running, tools: dict[str, Any], mirror: str
) -> None:
    before = software.lasting(host)
    host.write("/etc/systemd/system/display-manager.service", DISPLAY_MANAGER)
    host.run("systemctl start display-manager")
    # The first mirror doesn't have the installer, so the script must try the next mirror.
    sections = runfile(tools, f"{mirror}/gone.run", f"{mirror}/{VERSION}.run")
    sections["packages"] = {**tools, "remove": True}
    script = software.script(sections)
    first = host.apply(script)
    assert (first.status, first.errors) == (0, "")
    assert VERSION in host.read(SHOWN)
    assert host.exists("/dev/nvidia-uvm")
    assert host.run("systemctl is-active display-manager nvidia-persistenced").output == (
        "active\nactive\n"
    )
    assert host.run(f"dkms status -m nvidia | grep -c 'nvidia/{VERSION}.*installed'").output == (
        "1\n"
    )
    assert not list((host.root / "var/cache/gpu-cluster").iterdir())
    assert host.apply(script).output == "changed=0\n"

    undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    assert not host.exists("/usr/bin/nvidia-smi")
    assert not host.exists("/usr/src/nvidia-580.65.06")
    host.run("rm /etc/systemd/system/display-manager.service")
    left = differences(before, software.lasting(host))
    assert {path for path in left if path.startswith("etc/")} == set()


def test_a_wrong_checksum_is_refused_before_anything_runs(
    host: Running, tools: dict[str, Any], mirror: str
) -> None:
    for location in (f"{mirror}/{NEWER}.run", "/root/driver.run"):
        host.write("/root/driver.run", "#!/bin/sh\ntouch /run/owned\n")
        refused = host.apply(software.script(runfile(tools, location)))
        assert refused.status == 1
        assert f"wanted {digest(VERSION)}" in refused.errors
        assert not host.exists("/usr/bin/nvidia-smi")
        assert not host.exists("/run/owned")


@pytest.mark.full
def test_a_newer_runfile_replaces_the_one_that_we_ran(
    host: Running, tools: dict[str, Any], mirror: str
) -> None:
    (host.root / "root/driver.run").write_bytes(catalogue.driver_runfile(VERSION))
    assert host.apply(software.script(runfile(tools, "/root/driver.run"))).status == 0
    newer = software.script(runfile(tools, f"{mirror}/{NEWER}.run", version=NEWER))
    replaced = host.apply(newer)
    assert (replaced.status, replaced.errors) == (0, "")
    assert NEWER in host.read(SHOWN)
    assert host.apply(newer).output == "changed=0\n"


@pytest.mark.full
def test_a_module_in_use_is_not_torn_out(host: Running, tools: dict[str, Any], mirror: str) -> None:
    assert host.apply(software.script(runfile(tools, f"{mirror}/{VERSION}.run"))).status == 0
    host.run("touch /run/nvidia-in-use")
    refused = host.apply(software.script(runfile(tools, f"{mirror}/{NEWER}.run", version=NEWER)))
    assert refused.status == 1
    assert f"found driver {VERSION} in use" in refused.errors
    assert VERSION in host.read(SHOWN)


@pytest.mark.full
def test_another_driver_on_the_host_goes_only_when_asked(
    host: Running, tools: dict[str, Any], mirror: str
) -> None:
    by_runfile = runfile(tools, f"{mirror}/{VERSION}.run")
    with software.drivers("debian", NEWER) as repository:
        by_package: dict[str, Any] = {
            "packages": tools,
            "driver": {"source": "package", "version": NEWER, "repository": repository},
        }
        # The driver was installed by hand, so the stack has no record of the driver.
        host.write("/root/driver.run", catalogue.driver_runfile(VERSION).decode("latin-1"))
        (host.root / "root/driver.run").write_bytes(catalogue.driver_runfile(VERSION))
        assert host.apply(software.script({"packages": {**tools, "build": True}})).status == 0
        assert host.run("sh /root/driver.run --silent --dkms").status == 0
        refused = host.apply(software.script(by_package))
        assert refused.status == 1
        assert "found a driver installed by a runfile" in refused.errors
        assert "driver.removeEarlier: true" in refused.errors
        by_package["driver"]["removeEarlier"] = True
        assert host.apply(software.script(by_package)).status == 0
        assert software.installed(host, "debian")["nvidia-driver"] == f"{NEWER}-1"
        assert not host.exists("/usr/bin/nvidia-uninstall")

        # Change from packages back to the runfile. It may replace packages that the stack
        # installed; but without the stack's records, the driver counts as installed by somebody
        # else.
        host.run("rm -rf /var/lib/gpu-cluster")
        refused = host.apply(software.script(by_runfile))
        assert refused.status == 1
        assert "found driver packages" in refused.errors
        by_runfile["driver"]["removeEarlier"] = True
        done = host.apply(software.script(by_runfile))
        assert (done.status, done.errors) == (0, "")
        assert VERSION in host.read(SHOWN)
        assert "nvidia-driver" not in software.installed(host, "debian")


@pytest.mark.full
def test_nouveau_asks_for_a_reboot_instead_of_a_failure(
    host: Running, tools: dict[str, Any], mirror: str
) -> None:
    host.run("modprobe nouveau")
    done = host.apply(software.script(runfile(tools, f"{mirror}/{VERSION}.run")))
    assert (done.status, done.errors) == (0, "")
    assert "nouveau is loaded" in host.read(MARK)
    again = software.start(host.cluster, "debian")
    assert not again.exists(MARK)
    assert VERSION in again.read(SHOWN)
    assert again.exists("/dev/nvidia-uvm")
    assert again.run("systemctl is-active nvidia-persistenced").output == "active\n"


@pytest.mark.full
@pytest.mark.parametrize("switches", [0, 2])
def test_the_fabric_manager_runs_where_there_are_switches(
    host: Running, tools: dict[str, Any], switches: int
) -> None:
    for number in range(switches):
        device = f"/sys/bus/pci/devices/0000:0{number + 1}:00.0"
        host.run(f"mkdir {device}; echo 0x10de >{device}/vendor; echo 0x068000 >{device}/class")
    with software.drivers("debian", VERSION) as repository:
        section = {"source": "package", "version": VERSION, "repository": repository}
        script = software.script({"packages": tools, "driver": section})
        assert host.apply(script).status == 0
        package = software.installed(host, "debian").get("nvidia-fabricmanager")
        assert package == (f"{VERSION}-1" if switches else None)
        active = host.run("systemctl is-active nvidia-fabricmanager").output
        assert active == ("active\n" if switches else "inactive\n")
        assert host.apply(script).output == "changed=0\n"


@pytest.mark.full
@pytest.mark.parametrize("source", ["preinstalled", "operator", "daemonset"])
def test_a_host_whose_driver_others_bring_is_left_alone(host: Running, source: str) -> None:
    platform = "gpu-operator" if source == "operator" else "device-plugin"
    driver = {"source": source, "version": VERSION}
    sections: dict[str, Any] = {"driver": driver, "platform": platform}
    if source == "daemonset":
        sections["driverInstaller"] = {"images": INSTALLERS}
    script = software.script(sections)
    assert host.apply(script).status == 0
    assert not host.exists(SHOWN)
    assert host.apply(script).output == "changed=0\n"
