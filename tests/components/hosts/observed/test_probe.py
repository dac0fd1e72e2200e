"""Facts that the host probe reads from files and from program output, in two shells."""

from __future__ import annotations

import hashlib
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_cluster.hosts.observed.probe import parse
from tests.fixtures.probed import Machine


@pytest.fixture(params=["dash", "bash"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


@pytest.mark.parametrize(
    ("line", "driver"),
    [
        (
            "NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jun  3 20:57:00 UTC 2025",
            "535.261.03",
        ),
        (
            "NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  Release Build  (a@b-01)",
            "595.91.07",
        ),
        ("NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build", "580.95.05"),
        ("NVIDIA UNIX Kernel Module  470.256  Thu May  2 00:50:33 UTC 2024", "470.256"),
    ],
)
def test_the_driver_is_found_whichever_kernel_module_it_is(
    machine: Machine, line: str, driver: str
) -> None:
    gcc = "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
    machine.file("proc/driver/nvidia/version", f"NVRM version: {line}\n{gcc}")
    assert machine.single("driver") == driver


def test_kernel_and_architecture_are_the_machine_s(machine: Machine) -> None:
    facts = parse(machine.lines())
    assert (facts.arch, facts.kernel) == (platform.machine(), platform.release())


def test_swap_is_told_by_name(machine: Machine) -> None:
    head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    machine.file("proc/swaps", head)
    assert machine.single("swap") == ""
    machine.file("proc/swaps", f"{head}/swap.img file 2097148 0 -2\n/dev/sda3 partition 1 0 -3\n")
    assert machine.single("swap") == "/swap.img /dev/sda3"


def test_a_lock_counts_for_its_own_inode_and_not_for_who_waits(machine: Machine) -> None:
    lock = machine.file("var/lib/dpkg/lock", "")
    inode = lock.stat().st_ino
    others = f"1: POSIX  ADVISORY  WRITE 41 fe:00:1{inode} 0 EOF\n"
    waiting = f"2: -> POSIX  ADVISORY  WRITE 42 fe:00:{inode} 0 EOF\n"
    machine.file("proc/locks", others + waiting)
    assert machine.single("package_lock") == ""
    machine.file("proc/locks", f"{others}3: POSIX  ADVISORY  WRITE 43 fe:00:{inode} 0 EOF\n")
    assert machine.single("package_lock") == "/var/lib/dpkg/lock"


def test_each_written_file_is_judged_by_its_last_line_and_its_own_name(machine: Machine) -> None:
    texts = {"/etc/a": "one\n", "/etc/a.b": "two\n", "/etc/with space": "three\n"}
    lines = [f"{'0' * 64}  /etc/a", f"{'1' * 64}  /etc/gone"]
    for path, text in texts.items():
        machine.file(path, text)
        lines.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {path}")
    machine.file("var/lib/gpu-cluster/prepare/written", "\n".join(lines) + "\n")
    machine.file("var/lib/gpu-cluster/prepare/steps", "")
    facts = parse(machine.lines())
    assert facts.digests == {
        **{path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()},
        "/etc/gone": "missing",
    }
    assert facts.drift == {"prepare": ("/etc/gone",)}
    machine.file("/etc/a.b", "changed\n")
    assert parse(machine.lines()).drift == {"prepare": ("/etc/a.b", "/etc/gone")}


def test_a_value_with_tabs_is_the_declared_one(machine: Machine) -> None:
    machine.program("sysctl", "1\n4096\t131072\t6291456\n0")
    names = ["net.ipv4.ip_forward 1", "net.ipv4.tcp_rmem 4096 131072 6291456", "vm.swappiness 10"]
    expected = "".join(f"sysctl {name}\n" for name in names)
    machine.file("var/lib/gpu-cluster/prepare/written", "")
    machine.file("var/lib/gpu-cluster/prepare/steps", "")
    machine.file("var/lib/gpu-cluster/prepare/expected", expected)
    assert parse(machine.lines()).drift == {"prepare": ("sysctl vm.swappiness",)}


@pytest.mark.parametrize("found", [True, False])
def test_the_nvidia_runtime_is_read_from_the_file_where_no_daemon_runs(
    machine: Machine, found: bool
) -> None:
    """If `GPU_CLUSTER_ROOT` names a folder as root, no daemon runs, so the probe reads the file.

    On a real host the probe asks the container engine over the CRI (`library/cri.sh`).
    """
    machine.file("var/lib/gpu-cluster/runtime/written", "")
    machine.file("var/lib/gpu-cluster/runtime/steps", "")
    expected = "runtime /etc/containerd/config.toml\n"
    machine.file("var/lib/gpu-cluster/runtime/expected", expected)
    name = "nvidia" if found else "runc"
    machine.script("containerd", f'echo "[plugins.cri.containerd.runtimes.{name}]"')
    drift = parse(machine.lines()).drift
    assert drift == ({} if found else {"runtime": ("containerd",)})


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text("other\n")])
def test_steps_that_a_host_lost_or_that_were_changed_there_are_drift_of_their_phase(
    machine: Machine, change: Callable[[Path], object]
) -> None:
    names = {text: f"{text}-{hashlib.sha256(text.encode()).hexdigest()}" for text in "ls"}
    for phase in ("prepare", "runtime"):
        machine.file(f"var/lib/gpu-cluster/{phase}/written", "")
        machine.file(
            f"var/lib/gpu-cluster/{phase}/steps", "".join(f"{n}\n" for n in names.values())
        )
    files = {
        text: machine.file(f"var/lib/gpu-cluster/steps/{names[text]}.sh", text) for text in "ls"
    }
    assert parse(machine.lines()).drift == {}
    change(files["s"])
    other = ("the step s",)
    assert parse(machine.lines()).drift == {"prepare": other, "runtime": other}
    shutil.rmtree(files["l"].parent)
    both = ("the step l", "the step s")
    assert parse(machine.lines()).drift == {"prepare": both, "runtime": both}


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ('[nvidia-container-runtime]\nlog-level = "info"\nmode = "legacy"\n', "legacy"),
        ('[nvidia-container-runtime]\n  mode = "auto"\n[other]\nmode = "legacy"\n', "auto"),
        ('[nvidia-container-runtime.modes.legacy]\nmode = "x"\n', ""),
        ("", ""),
    ],
)
def test_the_mode_of_the_nvidia_runtime_is_that_of_its_own_table(
    machine: Machine, text: str, mode: str
) -> None:
    machine.file("etc/nvidia-container-runtime/config.toml", text)
    assert parse(machine.lines()).runtime_mode == mode


@pytest.mark.parametrize(
    ("toolkit", "told", "found"),
    [
        (True, "nvidia", "nvidia"),
        (True, "runc", "runc"),
        (True, "a b", ""),
        (True, "", ""),
        (False, "nvidia", ""),
    ],
)
def test_docker_s_default_runtime_is_asked_where_nvidia_s_runtime_is(
    machine: Machine, toolkit: bool, told: str, found: str
) -> None:
    machine.script("docker", f'[ "$1" != info ] || echo "{told}"')
    if toolkit:
        machine.program("nvidia-container-runtime", "")
    assert parse(machine.lines()).default_runtime == found


@pytest.mark.parametrize(
    "folder",
    [
        "etc/systemd/system",
        "usr/local/lib/systemd/system",
        "usr/lib/systemd/system",
        "lib/systemd/system",
    ],
)
def test_k0s_is_found_in_each_folder_of_units(machine: Machine, folder: str) -> None:
    machine.file(f"{folder}/k0sworker.service", "[Service]\nExecStart=/usr/local/bin/k0s worker\n")
    assert machine.single("foreign") == "k0s"


@pytest.mark.parametrize("mount", ["snap", "var/lib/snapd/snap"])
def test_microk8s_is_found_in_each_folder_of_snaps(machine: Machine, mount: str) -> None:
    machine.file(f"{mount}/microk8s/current/meta/snap.yaml", "name: microk8s\n")
    assert machine.single("foreign") == "snap-microk8s"


def test_a_kubernetes_distribution_with_its_own_engine_is_told(machine: Machine) -> None:
    machine.program("k3s", "k3s version v1.36.2+k3s1 (f5dd0e9f)")
    assert parse(machine.lines()).distributions == ("k3s",)


def test_a_jetson_is_told_by_its_model(machine: Machine) -> None:
    assert parse(machine.lines()).tegra == ""
    machine.file("etc/nv_tegra_release", "# R36 (release), REVISION: 4.3\n")
    assert parse(machine.lines()).tegra == "Tegra"
    machine.file("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    assert parse(machine.lines()).tegra == "NVIDIA Jetson AGX Orin Developer Kit"


@pytest.mark.parametrize(
    ("path", "text", "image"),
    [
        ("run/ostree-booted", "", "rpm-ostree"),
        ("proc/cmdline", "ro quiet composefs=f2b8b798d07d rw\n", "bootc, composefs"),
        ("proc/cmdline", "composefs=?f2b8b798d07d", "bootc, composefs"),
        ("proc/cmdline", "ro quiet nocomposefs=1\n", ""),
    ],
)
def test_a_system_in_an_image_is_told(machine: Machine, path: str, text: str, image: str) -> None:
    machine.file(path, text)
    assert parse(machine.lines()).image == image


def test_line_ends_of_windows_in_os_release_are_no_part_of_its_values(machine: Machine) -> None:
    text = 'ID=ubuntu\r\nVERSION_ID="24.04"\r\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\r\n'
    machine.file("etc/os-release", text)
    facts = parse(machine.lines())
    assert (facts.os, facts.os_version, facts.os_name) == ("ubuntu", "24.04", "Ubuntu 24.04.3 LTS")
