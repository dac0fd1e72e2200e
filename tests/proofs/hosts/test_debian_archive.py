"""Install NVIDIA's driver from Debian's own archive with real apt, dkms, headers and a build.

Only programs that need a GPU or a separate kernel are fake: `modprobe`, and the two programs that
open GPU devices. Debian's packages install the real programs under diverted names (dpkg-divert(1)).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import contents, rootfs
from tests.proofs.hosts import software
from tests.proofs.hosts.machine import Running

pytestmark = pytest.mark.full
COMPONENTS = "main contrib non-free non-free-firmware"
KERNEL = re.compile(r"^linux-image-(6\.1\.0-\d+-cloud-amd64) ", re.M)
PACKAGES = 5400
"""Seconds that one run of apt may take.

The default of 1800 is too short for a module build on a busy machine.
"""
LIMIT = 2 * PACKAGES
MARK = "/run/gpu-cluster/reboot-required"
SHOWN = "/proc/driver/nvidia/version"
MODINFO = """#!/bin/sh
case " $* " in *' -k '*) ;; *) set -- -k "$(uname -r)" "$@" ;; esac
exec /usr/local/lib/kmod/modinfo "$@"
"""
"""Wrapper that calls the real modinfo, because the module built here is real.

The real modinfo would look for the kernel of the test machine; the wrapper passes the kernel
release that the simulated host runs.
"""
DEVICES = ("nvidia-modprobe", "nvidia-persistenced")


def origin() -> tuple[str, str]:
    """Return the URL and the signing keys of the Debian archive that the hosts are built from."""
    root = rootfs.debian_root(lambda _: None)
    words = (root / "etc/apt/sources.list").read_text().split()
    keys = sorted((root / "etc/apt/trusted.gpg.d").glob(f"*-{rootfs.SUITE}-automatic.asc"))
    return words[1], "".join(key.read_text() for key in keys if "security" not in key.name)


@pytest.fixture
def host(cluster: str, namespaces: None) -> Running:
    """Return a host whose apt can reach Debian's archive; skip the test if apt can't."""
    host = software.start(cluster, "debian")
    host = Running(host.cluster, host.declared, host.key, limit=LIMIT)
    url, _ = origin()
    host.write("/run/archive.list", f"deb {url} {rootfs.SUITE} {COMPONENTS}\n")
    # Let apt use only this source list. The host scripts also ignore the host's other lists.
    apart = "-o Dir::Etc::sourcelist=/run/archive.list -o Dir::State::lists=/run/lists"
    host.run("mkdir -p /run/lists/partial")
    reached = host.run(f"apt-get update -q {apart} -o APT::Update::Error-Mode=any 2>&1")
    if reached.status != 0:
        pytest.skip(f"Debian's archive can't be reached: {reached.output.strip()[-200:]}")
    host.run("rm -r /run/lists /run/archive.list")
    return host


@pytest.fixture
def kernels(host: Running) -> tuple[str, str]:
    """Return two kernel releases from the Debian archive; the host runs the first."""
    url, _ = origin()
    host.run("mkdir -p /run/lists/partial")
    host.write("/run/archive.list", f"deb {url} {rootfs.SUITE} main\n")
    apart = "-o Dir::Etc::sourcelist=/run/archive.list -o Dir::State::lists=/run/lists"
    host.run(f"apt-get update -q {apart}")
    listed = host.run(f"apt-cache search {apart} --names-only '^linux-image-.*-cloud-amd64$'")
    host.run("rm -r /run/lists /run/archive.list")
    found = sorted(KERNEL.findall(listed.output))
    assert len(found) >= 2, listed
    return found[0], found[1]


def boot_with(host: Running, release: str) -> Running:
    """Make the host report that it runs a kernel release whose packages aren't installed yet."""
    for device in DEVICES:
        host.run(f"dpkg-divert --add --no-rename --divert /usr/bin/{device}.real /usr/bin/{device}")
        for path, text in contents.texts(f"driver/usr/bin/{device}", "535").items():
            host.write(path, text)
            host.run(f"chmod 755 {path}")
    host.write("/usr/local/sbin/modinfo", MODINFO)
    host.run("chmod 755 /usr/local/sbin/modinfo")
    host.run("mkdir /usr/local/lib/kmod; ln -s /usr/bin/kmod /usr/local/lib/kmod/modinfo")
    host.run("rm /boot/vmlinuz-*")
    host.write(f"/boot/vmlinuz-{release}", "stands for a kernel\n")
    host.run("grub-mkconfig -o /boot/grub/grub.cfg")
    return restarted(host)


def restarted(host: Running) -> Running:
    """Restart the simulated host, as a reboot does."""
    again = software.start(host.cluster, "debian")
    return Running(again.cluster, again.declared, again.key, limit=LIMIT)


def sections(release: str) -> dict[str, Any]:
    url, key = origin()
    archive = {"url": url, "suite": rootfs.SUITE, "components": COMPONENTS, "key": key}
    return {
        "packages": {"repository": {"apt": archive}, "remove": True},
        "kernel": {"release": release},
        "driver": {"source": "package", "kernelModuleType": "proprietary"},
    }


def patiently(declared: dict[str, Any]) -> str:
    """Return the script of phase `prepare` with a longer time limit for the package manager."""
    return f"GC_PACKAGE_RUN_LIMIT={PACKAGES}\n{software.script(declared)}"


def module(host: Running, release: str) -> dict[str, str]:
    """Return the real modinfo's fields of the NVIDIA module that was built for a kernel release."""
    done = host.run(f"modinfo -k {release} nvidia-current")
    lines = [line.partition(":") for line in done.output.splitlines()]
    return {name: text.strip() for name, _, text in lines}


def test_debians_driver_is_built_for_each_pinned_kernel_and_taken_back(
    host: Running, kernels: tuple[str, str], tmp_path: Path
) -> None:
    first, second = kernels
    host = boot_with(host, first)
    before = software.installed(host, "debian")
    script = patiently(sections(first))
    done = host.apply(script)
    assert (done.status, done.errors) == (0, ""), done
    packages = software.installed(host, "debian")
    version = packages["nvidia-kernel-dkms"].partition("-")[0]
    assert {"libcuda1", "nvidia-smi", "nvidia-persistenced", "dkms"} <= packages.keys()
    assert "xserver-xorg-core" not in packages
    assert {"nvidia-kernel-dkms", "nvidia-smi", "libcuda1"} <= software.held(host, "debian")
    built = module(host, first)
    assert built["version"] == version
    assert built["vermagic"].startswith(f"{first} ")
    assert built["filename"] == f"/lib/modules/{first}/updates/dkms/nvidia-current.ko"
    assert version in host.read(SHOWN)
    assert host.apply(script).output == "changed=0\n"

    newer = patiently(sections(second))
    done = host.apply(newer)
    assert (done.status, done.errors) == (0, ""), done
    assert host.read(MARK) == f"kernel {first} runs, {second} is wanted\n"
    assert module(host, second)["vermagic"].startswith(f"{second} ")
    host = restarted(host)
    assert host.run("uname -r").output == f"{second}\n"
    assert version in host.read(SHOWN)
    assert host.apply(newer).status == 0
    assert host.apply(newer).output == "changed=0\n"

    undone = host.undo(newer)
    assert (undone.status, undone.errors) == (0, ""), undone
    left = software.installed(host, "debian").keys() - before.keys()
    assert not {name for name in left if "nvidia" in name or name in ("dkms", "libcuda1")}, left
    assert module(host, second) == {}
    assert software.held(host, "debian") == set()
