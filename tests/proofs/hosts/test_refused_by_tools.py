"""Fakes of host tools refuse what the real tools refuse, and the host scripts handle this."""

from __future__ import annotations

import pytest

from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.system import Firewall, Selinux, SystemSettings
from gpu_cluster_lab.simulator.hosts import catalogue
from tests.proofs.hosts import fakes, software
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.fakes import UNIT
from tests.proofs.hosts.machine import Running

pytestmark = pytest.mark.slow

WITHOUT_INSTALL = "[Service]\nExecStart=/usr/bin/sleep 100000\n"
SELINUX = "/etc/selinux/config"

REFUSALS = {
    "swapoff of no file": ("swapoff /nowhere", 4, "No such file or directory"),
    "swapoff of what isn't swapped to": ("swapoff /etc/fstab", 4, "Invalid argument"),
    "swapon of what is swapped to": ("swapon /swap.img", 255, "Device or resource busy"),
    "swapon of no file": ("swapon /nowhere", 255, "No such file or directory"),
    "sysctl of no key": ("sysctl -n net.nowhere", 1, "cannot stat /proc/sys/net/nowhere"),
    "sysctl of no key, set": ("sysctl -w net.nowhere=1", 1, "cannot stat"),
    "sysctl of a word": ("sysctl -w vm.swappiness=much", 1, "Invalid argument"),
    "sysctl of an option": ("sysctl --nowhere", 1, "option"),
    "modprobe of no module": ("modprobe nowhere", 1, "Module nowhere not found in directory"),
    "modprobe -r of no module": ("modprobe -r nowhere", 1, "Module nowhere not found."),
    "modprobe of an option": ("modprobe --nowhere overlay", 1, "option"),
    "modinfo of no module": ("modinfo nowhere", 1, "Module nowhere not found"),
    "modinfo of nothing": ("modinfo -F version", 1, "missing module"),
    "uname of an option": ("uname -r -x", 1, "invalid option"),
    "enable of no unit": ("systemctl enable nowhere", 1, "does not exist"),
    "start of no unit": ("systemctl start nowhere", 5, "not found"),
    "stop of no unit": ("systemctl stop nowhere", 5, "not found"),
    "is-enabled of no unit": ("systemctl is-enabled nowhere", 1, "No such file or directory"),
    "enable of a masked unit": (
        "ln -s /dev/null /etc/systemd/system/ssh.service; systemctl enable ssh",
        1,
        "masked",
    ),
    "systemctl of an option": ("systemctl --nowhere start containerd", 1, "unrecognized option"),
    "grub-mkconfig of a wrong text": (
        'echo "GRUB_TIMEOUT=\'5\\"\'" >>/etc/default/grub; grub-mkconfig -o /boot/grub/grub.cfg',
        1,
        "Syntax errors",
    ),
}


@pytest.mark.refusal(by="fake")
def test_a_tool_refuses_what_the_real_one_refuses(host: Running) -> None:
    for name, (command, status, said) in REFUSALS.items():
        done = host.run(command)
        assert (done.status, said in done.errors) == (status, True), (name, done)


def test_a_tool_takes_what_the_real_one_takes(host: Running) -> None:
    assert host.run("modprobe -r overlay-fs br_netfilter").status == 1
    assert host.run("modprobe br-netfilter && [ -d /sys/module/br_netfilter ]").status == 0
    assert host.run("modprobe -r br_netfilter; modprobe -r br_netfilter").status == 0
    shown = host.run("sysctl -n vm.swappiness net.nowhere kernel.hostname")
    assert (shown.status, len(shown.output.splitlines())) == (1, 2)
    host.write("/etc/systemd/system/static.service", WITHOUT_INSTALL)
    enabled = host.run("systemctl enable static && systemctl is-enabled static")
    assert (enabled.status, enabled.output) == (0, "static\n")


@pytest.mark.refusal(by="fake")
def test_firewalls_and_selinux_refuse_what_the_real_ones_refuse(host: Running) -> None:
    fakes.put(host, "firewall-cmd", "ufw", "setenforce", "getenforce")
    host.write("/etc/systemd/system/firewalld.service", UNIT)
    host.write("/run/selinux-mode", "Disabled\n")
    for command, status in {
        "firewall-cmd --state": 252,
        "firewall-cmd --permanent --query-port=6443/tcp": 252,
        "ufw allow 30000:32767 comment x": 1,
        "ufw allow https:x comment x": 1,
        "setenforce 1": 1,
        "setenforce": 1,
    }.items():
        assert host.run(command).status == status, command
    host.run("systemctl start firewalld; echo Permissive >/run/selinux-mode")
    for command, status in {
        "firewall-cmd --state": 0,
        "firewall-cmd --add-port=6443": 102,
        "firewall-cmd --add-port=6443/icmp": 103,
        "firewall-cmd --permanent --add-port=6443/tcp --add-port=6443/tcp": 0,
        "setenforce 2": 1,
        "setenforce Enforcing": 0,
    }.items():
        assert host.run(command).status == status, command


@pytest.mark.refusal(by="fake")
def test_what_a_tool_refuses_is_named_with_its_cure(host: Running) -> None:
    host.write("/run/simulated-kernel/swap-in-use", "")
    refused = host.apply(prepare(system=SystemSettings()))
    assert (refused.status, "swapoff -a failed" in refused.errors) == (1, True)
    host.run("rm /run/simulated-kernel/swap-in-use")
    refused = host.apply(prepare(system=SystemSettings(modules=("nowhere",))))
    assert "found no module nowhere for kernel" in refused.errors
    unknown = prepare(system=SystemSettings(sysctl={"net.nowhere": "1"}))
    refused = host.apply(unknown)
    assert "sysctl net.nowhere does not exist" in refused.errors, "a module might have brought it"
    assert host.apply(prepare(system=SystemSettings())).status == 0
    refused = host.apply(unknown)
    assert "found no sysctl net.nowhere; wanted a parameter of the running" in refused.errors
    refused = host.apply(prepare(system=SystemSettings(sysctl={"vm.swappiness": "much"})))
    assert "sysctl vm.swappiness can't be set to much" in refused.errors
    fakes.put(host, "getenforce", "setenforce")
    host.write("/run/selinux-mode", "Enforcing\n")
    host.write("/run/selinux-refuses", "")
    host.write(SELINUX, "SELINUX=enforcing\n")
    refused = host.apply(prepare(system=SystemSettings(selinux=Selinux.PERMISSIVE)))
    assert "setenforce 0 failed" in refused.errors


def test_swap_that_went_meanwhile_is_named_when_undone(host: Running) -> None:
    wanted = prepare(system=SystemSettings())
    assert host.apply(wanted).status == 0
    host.run("mv /swap.img /gone.img")
    undone = host.undo(wanted)
    assert undone.status == 0
    assert "! swap /swap.img can't be turned on again" in undone.output


def test_a_parameter_that_went_is_the_only_drift(host: Running) -> None:
    key = "/run/simulated-kernel/sysctl/net.module.key"
    host.write(key, "1\n")
    wanted = prepare(system=SystemSettings(sysctl={"net.module.key": "2", "vm.swappiness": "10"}))
    assert host.apply(wanted).status == 0
    host.run(f"rm {key}")
    assert software.drift(host) == ("sysctl net.module.key",)


@pytest.mark.refusal(by="fake")
def test_ports_that_a_stopped_firewalld_keeps_are_named(host: Running) -> None:
    fakes.put(host, "firewall-cmd")
    host.write("/etc/systemd/system/firewalld.service", UNIT)
    host.run("systemctl enable --now firewalld")
    wanted = prepare(system=SystemSettings(firewall=Firewall.RULES), role=Role.GPU_WORKER)
    assert host.apply(wanted).status == 0
    host.run("systemctl stop firewalld")
    undone = host.undo(wanted)
    assert undone.status == 0
    assert "10250/tcp" in host.read("/etc/firewalld/ports").split()
    assert "firewall-offline-cmd --remove-port=10250/tcp" in undone.output


def test_a_firewall_goes_without_a_reload_of_systemds_manager(host: Running) -> None:
    """The script doesn't reload systemd while containers use GPUs.

    A reload of systemd removes GPUs from running containers. Source:
    NVIDIA/nvidia-container-toolkit#48.
    """
    fakes.put(host, "firewall-cmd")
    host.write("/etc/systemd/system/firewalld.service", UNIT)
    host.run("systemctl enable --now firewalld; systemctl restart containerd")
    read = "/run/simulated-systemd/containerd.loaded"
    assert host.exists(read)
    wanted = prepare(system=SystemSettings(firewall=Firewall.DISABLE))
    assert host.apply(wanted).status == 0
    assert host.undo(wanted).status == 0
    assert host.run("systemctl is-enabled firewalld").output == "enabled\n"
    assert host.exists(read)


@pytest.mark.refusal(by="fake")
@pytest.mark.parametrize("system", ["debian", "rocky"])
def test_a_boot_menu_with_errors_is_not_taken_for_one(
    cluster: str, namespaces: None, system: str
) -> None:
    host = software.start(cluster, system)
    text = host.read("/etc/default/grub")
    host.write("/etc/default/grub", f"{text}GRUB_TIMEOUT='5\"'\n")
    release = {"debian": "6.1.0-42-amd64", "rocky": "6.1.150-1.el9.elrepo.x86_64"}[system]
    kernels = (
        catalogue.kernel_apt(release)
        if system == "debian"
        else catalogue.kernel_dnf(release, "kernel-lt")
    )
    with software.serving(system, kernels) as repository:
        kernel: dict[str, object] = {"release": release, "repository": repository}
        if system == "rocky":
            kernel["flavor"] = "kernel-lt"
        wanted = software.script({"kernel": kernel})
        refused = host.apply(wanted)
        assert refused.status == 1
        assert "Syntax errors" in refused.errors
        host.write("/etc/default/grub", host.read("/etc/default/grub").replace("'5\"'", "5"))
        mended = host.apply(wanted)
        assert (mended.status, mended.errors) == (0, "")
