"""Mutation tests of software installation: a check must fail if a shell function is emptied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running, differences

VERSION = "580.65.06"
PINNED = "6.1.0-42-amd64"
EMPTIED = (
    "apply_packages",
    "apply_kernel",
    "boot_entry",
    "apply_driver",
    "pin_driver",
    "driver_load",
    "driver_services",
    "driver_rebuild",
    "apply_cuda",
    "apply_kubernetes",
    "hold_packages",
    "unit_on",
    "effect",
    "record_written",
    "undo_file",
    "undo_lists",
    "undo_enabled",
    "undo_started",
    "undo_package",
    "undo_boot_menu",
)
"""Names of the shell functions that are replaced by empty ones, one at a time."""


@pytest.fixture(scope="module")
def sections() -> Iterator[dict[str, Any]]:
    """Yield a configuration that uses all steps which install software."""
    kernels = [
        package for package in catalogue.kernel_apt(PINNED) if package.name != "linux-image-amd64"
    ]
    with ExitStack() as stack:

        def serve(*packages: Any) -> dict[str, Any]:
            return stack.enter_context(software.serving("debian", packages))

        yield {
            "packages": {
                "remove": True,
                "repository": serve(*catalogue.build_tools(), *catalogue.headers_apt()),
            },
            "kernel": {"release": PINNED, "repository": serve(*kernels)},
            "driver": {
                "source": "package",
                "version": VERSION,
                "repository": serve(*catalogue.driver(VERSION, "595.91.07")),
            },
            "cuda": {
                "source": "package",
                "version": "12.8",
                "repository": serve(*catalogue.cuda("12.8")),
            },
            "kubernetesPackages": {
                "version": "1.34.4",
                "repository": serve(*catalogue.kubernetes("1.34.4")),
            },
        }


def prove(host: Running, script: str, removed: bool = True) -> None:
    """Check the host after apply, a second apply and undo of the script.

    The host's files and the package manager's records are compared.
    """
    before, packages = software.lasting(host), software.installed(host, "debian")
    assert host.apply(script, "bash").status == 0
    installed = software.installed(host, "debian")
    assert {"gcc", "make", "dkms", "pciutils", "cuda-toolkit-12-8"} <= installed.keys()
    assert (installed["nvidia-driver"], installed["kubelet"]) == (f"{VERSION}-1", "1.34.4-1.1")
    assert {"kubelet", "nvidia-open", f"linux-image-{PINNED}"} <= software.held(host, "debian")
    assert VERSION in host.read("/proc/driver/nvidia/version")
    assert VERSION in host.read(f"/lib/modules/{PINNED}/updates/dkms/nvidia.ko")
    assert f"gnulinux-{PINNED}-advanced" in host.read("/boot/grub/grub.cfg").splitlines()[1]
    assert host.run("systemctl is-enabled kubelet").output == "enabled\n"
    unit = "nvidia-persistenced"
    assert host.run(f"systemctl is-enabled {unit}; systemctl is-active {unit}").output == (
        "enabled\nactive\n"
    )
    assert host.apply(script).output == "changed=0\n"
    assert software.drift(host) == ()

    active = host.run("ls /run/simulated-systemd").output
    assert "nvidia-persistenced.pid" in active
    assert host.undo(script).status == 0
    assert (software.installed(host, "debian") == packages) is removed
    assert software.held(host, "debian") == set()
    left = differences(before, software.lasting(host))
    assert {path for path in left if path.startswith(("etc/", "var/"))} == set()
    assert "nvidia-persistenced.pid" not in host.run("ls /run/simulated-systemd").output
    assert not list((host.root / "var/lib/apt/lists").glob("127.0.0.1*"))
    assert PINNED not in host.read("/boot/grub/grub.cfg").splitlines()[1]


def emptied(script: str, function: str) -> str:
    """Return the script with one shell function that does nothing."""
    head = rf"^{function}\(\) \{{$"
    mutant, count = re.subn(head, f"{function}() {{\n    return 0", script, flags=re.M)
    assert count == 1
    return mutant


@pytest.mark.full
def test_the_scripts_as_they_are_hold(
    cluster: str, namespaces: None, sections: dict[str, Any]
) -> None:
    prove(software.start(cluster, "debian"), software.script(sections))


@pytest.mark.full
@pytest.mark.parametrize("function", EMPTIED)
def test_an_emptied_function_is_noticed(
    cluster: str, namespaces: None, sections: dict[str, Any], function: str
) -> None:
    mutant = emptied(software.script(sections, inline=True), function)
    with pytest.raises((AssertionError, FileNotFoundError, KeyError)):
        prove(software.start(cluster, "debian"), mutant)


@pytest.mark.full
@pytest.mark.parametrize("function", ["", "undo_hold"])
def test_holds_end_where_packages_stay(
    cluster: str, namespaces: None, sections: dict[str, Any], function: str
) -> None:
    """The packages are kept, because a package's hold can't be checked once it is removed."""
    script = software.script(
        {**sections, "packages": {**sections["packages"], "remove": False}}, inline=True
    )
    host = software.start(cluster, "debian")
    if not function:
        prove(host, script, removed=False)
        return
    with pytest.raises(AssertionError):
        prove(host, emptied(script, function), removed=False)
