"""Pin a kernel: it is installed, held, made GRUB's default and booted, and has the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue, package_graph
from gpu_cluster_lab.simulator.hosts.packages import Package
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import differences

pytestmark = pytest.mark.slow

VERSION = "580.65.06"
PINNED = {"debian": "6.1.0-42-amd64", "rocky": "6.1.150-1.el9.elrepo.x86_64"}
GRUB = {"debian": "boot/grub/grub.cfg", "rocky": "boot/grub2/grub.cfg"}
MARK = "/run/gpu-cluster/reboot-required"


def packages(system: str) -> list[Package]:
    if system == "debian":
        newer = catalogue.kernel_apt("6.1.0-99-amd64")
        older = [
            package for package in catalogue.kernel_apt(PINNED[system]) if "amd64" in package.name
        ]
        return [*newer, *(package for package in older if package.name != "linux-image-amd64")]
    return catalogue.kernel_dnf(PINNED[system], "kernel-lt")


@pytest.mark.parametrize("system", ["debian", pytest.param("rocky", marks=pytest.mark.full)])
def test_a_pinned_kernel_is_booted_with_its_driver_and_taken_back(
    cluster: str, namespaces: None, system: str
) -> None:
    host = software.start(cluster, system)
    running = host.run("uname -r").output.strip()
    pinned = PINNED[system]
    grub = host.read("/etc/default/grub")
    before = software.lasting(host)
    with (
        software.tools(system) as tools,
        software.serving(system, packages(system)) as kernels,
        software.drivers(system, VERSION) as drivers,
    ):
        sections: dict[str, Any] = {
            "packages": {"repository": tools},
            "kernel": {"release": pinned, "repository": kernels},
            "driver": {"source": "package", "version": VERSION, "repository": drivers},
        }
        if system == "rocky":
            sections["kernel"]["flavor"] = "kernel-lt"
        script = software.script(sections)
        first = host.apply(script)
        assert (first.status, first.errors) == (0, "")
        assert host.read(MARK) == f"kernel {running} runs, {pinned} is wanted\n"
        assert f"gnulinux-{pinned}-advanced" in host.read("/etc/default/grub")
        assert f"gnulinux-{pinned}-advanced" in host.read(GRUB[system]).splitlines()[1]
        assert host.apply(script).output == "changed=0\n" or system == "never"
        wanted = {"debian": f"linux-image-{pinned}", "rocky": "kernel-lt"}[system]
        assert wanted in software.held(host, system)

        host = software.start(cluster, system)  # Restart the simulated host, as a reboot does.
        assert host.run("uname -r").output == f"{pinned}\n"
        assert VERSION in host.read("/proc/driver/nvidia/version")
        assert not host.exists(MARK)
        again = host.apply(script)
        assert (again.status, again.errors) == (0, "")
        # The repository has no headers of the earlier kernel; only headers of the pinned kernel are
        # installed.
        assert host.apply(script).output == "changed=0\n"

        undone = host.undo(script)
        assert (undone.status, undone.errors) == (0, "")
        assert host.read("/etc/default/grub") == grub
        assert 'set default="0"' in host.read(GRUB[system])
        assert software.held(host, system) == set()
        left = differences(before, software.lasting(host))
        assert {path for path in left if path.startswith("etc/")} == set()


def test_what_brings_newer_kernels_is_held_also_where_the_driver_brought_it(
    cluster: str, namespaces: None
) -> None:
    """linux-headers-amd64 is held even if the driver's packages brought it.

    This package installs newer headers, and Debian's dkms recommends it.
    """
    host = software.start(cluster, "debian")
    newest = Package("linux-headers-amd64", "6.1.0-99-1")
    tools = [
        replace(package, depends=(newest.name,)) if package.name == "dkms" else package
        for package in [*catalogue.build_tools(), *software.headers("debian"), newest]
    ]
    with (
        software.serving("debian", tools) as brought,
        software.serving("debian", packages("debian")) as kernels,
        software.drivers("debian", VERSION) as drivers,
    ):
        sections = {
            "packages": {"repository": brought},
            "kernel": {"release": PINNED["debian"], "repository": kernels},
            "driver": {"source": "package", "version": VERSION, "repository": drivers},
        }
        script = software.script(sections)
        assert host.apply(script).status == 0
        assert newest.name in software.held(host, "debian")
        assert host.apply(script).output == "changed=0\n"
        assert host.undo(script).status == 0
    assert software.held(host, "debian") == set()


def test_what_a_pinned_kernel_needs_goes_with_it_also_where_the_driver_brought_it(
    cluster: str, namespaces: None
) -> None:
    """On undo, headers that a pinned kernel needs are removed even if the driver brought them.

    Debian's linux-headers-amd64 and a pinned kernel both need the headers common to all flavors.
    The pinned kernel's headers are held, so apt refuses to remove the common package together with
    the driver.
    """
    host = software.start(cluster, "debian")
    shared = Package("linux-headers-6.1.0-42-common", "6.1.0-42")
    newest = Package("linux-headers-amd64", "6.1.0-99-1", depends=(shared.name,))
    tools = [
        replace(package, depends=(newest.name,)) if package.name == "dkms" else package
        for package in [*catalogue.build_tools(), *software.headers("debian"), newest, shared]
    ]
    kernels = [
        replace(package, depends=(shared.name,))
        if package.name == f"linux-headers-{PINNED['debian']}"
        else package
        for package in packages("debian")
    ]
    before = software.installed(host, "debian")
    with (
        software.serving("debian", tools) as brought,
        software.serving("debian", kernels) as pinned,
        software.drivers("debian", VERSION) as drivers,
    ):
        sections: dict[str, Any] = {
            "packages": {"repository": brought, "remove": True},
            "driver": {"source": "package", "version": VERSION, "repository": drivers},
        }
        assert host.apply(software.script(sections)).status == 0
        assert shared.name in software.installed(host, "debian")
        sections["kernel"] = {"release": PINNED["debian"], "repository": pinned}
        script = software.script(sections)
        assert host.apply(script).status == 0
        undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    assert f"{shared.name} stays: linux-headers-{PINNED['debian']} needs it" in undone.output
    assert software.held(host, "debian") == set()
    assert software.installed(host, "debian") == before


@pytest.mark.parametrize("system", ["debian", pytest.param("rocky", marks=pytest.mark.full)])
def test_what_a_package_of_somebody_else_needs_stays(
    cluster: str, namespaces: None, system: str
) -> None:
    host = software.start(cluster, system)
    theirs = Package("site-tool", "1.0-1", depends=("gcc",))
    with software.serving(system, [*catalogue.build_tools(system), theirs]) as tools:
        sections = {"packages": {"install": ["gcc", "make"], "repository": tools, "remove": True}}
        script = software.script(sections)
        assert host.apply(script).status == 0
        tool = {"debian": "apt-get -y -q", "rocky": "dnf -y"}[system]
        assert host.run(f"{tool} install site-tool").status == 0
        undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    assert "package gcc stays: site-tool needs it" in undone.output
    left = software.installed(host, system)
    assert {"site-tool", "gcc"} <= left.keys()
    assert "make" not in left


@pytest.mark.parametrize("system", ["debian", pytest.param("rocky", marks=pytest.mark.full)])
def test_the_kernel_that_runs_stays_where_packages_are_removed(
    cluster: str, namespaces: None, system: str
) -> None:
    host = software.start(cluster, system)
    pinned = PINNED[system]
    with software.serving(system, packages(system)) as kernels:
        sections: dict[str, Any] = {
            "packages": {"remove": True},
            "kernel": {"release": pinned, "repository": kernels},
        }
        if system == "rocky":
            sections["kernel"]["flavor"] = "kernel-lt"
        script = software.script(sections)
        assert host.apply(script).status == 0
        host = software.start(cluster, system)  # Restart the simulated host, as a reboot does.
        assert host.run("uname -r").output == f"{pinned}\n"
        undone = host.undo(script)
    assert (undone.status, undone.errors) == (0, "")
    assert f"kernel {pinned} runs: its packages stay" in undone.output
    assert host.exists(f"/boot/vmlinuz-{pinned}")
    left = software.installed(host, system)
    image = {"debian": f"linux-image-{pinned}", "rocky": "kernel-lt"}[system]
    tools = {"debian": f"linux-headers-{pinned}", "rocky": "kernel-lt-devel"}[system]
    assert image in left
    assert tools not in left


@pytest.mark.full
def test_entries_of_the_boot_loader_specification_are_found(cluster: str, namespaces: None) -> None:
    """The boot entry of a pinned kernel is found by its file name on RHEL 8 and later.

    There the file name consists of the machine id and the kernel release.
    """
    host = software.start(cluster, "debian")
    entry = f"0123456789abcdef-{PINNED['debian']}"
    host.write(f"/boot/loader/entries/{entry}.conf", "title simulated\n")
    with software.serving("debian", packages("debian")) as kernels:
        script = software.script({"kernel": {"release": PINNED["debian"], "repository": kernels}})
        assert host.apply(script).status == 0
    assert f'GRUB_DEFAULT="{entry}"' in host.read("/etc/default/grub")


UBUNTU = "6.8.0-71-generic"
NEWEST = ("linux-lowlatency-hwe-24.04", "linux-realtime-hwe-24.04")


def archive(*without: str) -> list[Package]:
    """Return the packages of one Ubuntu kernel and of two metapackages.

    The metapackages stand for the newest kernels of other flavors.
    """
    packages = package_graph.load("ubuntu24.04").packages("archive", kernels=[UBUNTU])
    newest = Package("linux-lowlatency-hwe-24.04", "6.8.0-71.71")
    image = f"linux-image-{UBUNTU}"
    realtime = Package("linux-realtime-hwe-24.04", "6.8.0-71.71", depends=(image,))
    return [
        newest,
        realtime,
        *(package for package in packages if not package.name.startswith(without or ("-",))),
    ]


def test_an_ubuntu_kernel_comes_with_its_extra_modules(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "ubuntu")
    with software.serving("ubuntu", archive()) as kernels:
        sections = {
            "kernel": {"release": UBUNTU, "repository": kernels},
            "packages": {"install": list(NEWEST), "repository": kernels},
        }
        done = host.apply(software.script(sections))
        assert (done.status, done.errors) == (0, "")
    extra = f"linux-modules-extra-{UBUNTU}"
    assert extra in software.installed(host, "ubuntu")
    assert {extra, *NEWEST} <= software.held(host, "ubuntu")


def test_an_ubuntu_kernel_without_its_extra_modules_is_refused(
    cluster: str, namespaces: None
) -> None:
    host = software.start(cluster, "ubuntu")
    with software.serving("ubuntu", archive("linux-modules-extra-")) as kernels:
        sections = {"kernel": {"release": UBUNTU, "repository": kernels}}
        refused = host.apply(software.script(sections))
    assert refused.status == 1
    assert f"found no package linux-modules-extra-{UBUNTU}" in refused.errors
    assert f"linux-image-{UBUNTU}" not in software.installed(host, "ubuntu")
