"""Mutation tests: a check must fail if a shell function of phase `prepare` does nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_cluster.hosts.step import Phase
from gpu_cluster.hosts.steps import of_phase
from gpu_cluster.settings.hosts.proxy import ProxySettings
from gpu_cluster.settings.hosts.system import Firewall, LimitItem, Selinux, SystemSettings
from tests.proofs.hosts import fakes
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.fakes import SELINUX, UNIT
from tests.proofs.hosts.machine import Running

pytestmark = pytest.mark.full

SOFTWARE = ("packages", "kernel", "driver", "cuda", "engine", "kubernetes")

SCRIPT = prepare(
    system=SystemSettings(
        sysctl={"vm.max_map_count": "262144"},
        firewall=Firewall.DISABLE,
        selinux=Selinux.PERMISSIVE,
        limits={LimitItem.MEMLOCK: -1},
    ),
    excluded=("GPU-00000001-0000-4000-8000-000000000000",),
    proxy=ProxySettings(https="http://proxy.example.org:3128"),
)

PROXY = "/etc/systemd/system/containerd.service.d/50-gpu-cluster-proxy.conf"


def value(host: Running, key: str) -> str:
    return host.run(f"sysctl -n {key}").output.strip()


CHECKS: dict[str, Callable[[Running], bool]] = {
    "apply_swap": lambda host: (
        "/swap.img" not in host.read("/proc/swaps")
        and "\n/swap.img none swap sw" not in host.read("/etc/fstab")
    ),
    "apply_modules": lambda host: (
        host.exists("/sys/module/br_netfilter")
        and host.exists("/etc/modules-load.d/gpu-cluster.conf")
    ),
    "apply_sysctl": lambda host: (
        value(host, "net.ipv4.ip_forward") == "1" and value(host, "vm.max_map_count") == "262144"
    ),
    "sysctl_set": lambda host: value(host, "vm.max_map_count") == "262144",
    "apply_limits": lambda host: host.exists("/etc/security/limits.d/99-gpu-cluster.conf"),
    "apply_selinux": lambda host: "SELINUX=permissive" in host.read(SELINUX),
    "selinux_set": lambda host: host.read("/run/selinux-mode") == "Permissive\n",
    "apply_firewall": lambda host: host.run("systemctl is-active firewalld").output == "inactive\n",
    "firewalls_off": lambda host: not host.exists("/etc/ufw/enabled"),
    "apply_nouveau": lambda host: host.exists("/etc/modprobe.d/gpu-cluster-blacklist.conf"),
    "apply_excluded": lambda host: host.exists("/etc/modprobe.d/gpu-cluster-excluded.conf"),
    "apply_proxy": lambda host: host.exists(PROXY),
    "rebuild_initramfs": lambda host: host.exists("/run/simulated-kernel/initramfs"),
    "place": lambda host: "#gpu-cluster#" in host.read("/etc/fstab"),
    "place_text": lambda host: host.exists("/etc/sysctl.d/zz-gpu-cluster.conf"),
    "put_draft": lambda host: host.exists("/etc/sysctl.d/zz-gpu-cluster.conf"),
    "keep_text": lambda host: "swap off" in host.read("/var/lib/gpu-cluster/prepare/expected"),
    "keep": lambda host: host.exists("/var/lib/gpu-cluster/prepare/kept/etc/fstab"),
    "record_written": lambda host: (
        "zz-gpu-cluster.conf" in host.read("/var/lib/gpu-cluster/prepare/written")
    ),
    "expect": lambda host: "sysctl" in host.read("/var/lib/gpu-cluster/prepare/expected"),
    # This check must run last, because undo doesn't remove a file that isn't recorded as absent.
    "file_has": lambda host: (
        "zz-gpu-cluster.conf" in host.read("/var/lib/gpu-cluster/prepare/absent")
    ),
}
"""For each shell function, a check of its result that reads the host without the script's help."""


@pytest.fixture
def ready(host: Running) -> Running:
    """Return a host with an active firewall, SELinux in enforcing mode, and swap turned on."""
    fakes.put(host, "firewall-cmd", "ufw", "getenforce", "setenforce")
    host.write("/etc/systemd/system/firewalld.service", UNIT)
    host.write("/etc/ufw/enabled", "")
    host.run("systemctl enable --now firewalld")
    host.write("/run/selinux-mode", "Enforcing\n")
    host.write(SELINUX, "SELINUX=enforcing\n")
    return host


def holds(host: Running, name: str) -> bool:
    try:
        return CHECKS[name](host)
    except FileNotFoundError:
        return False


def emptied(name: str) -> str:
    """Return the script with a second, empty definition of a function; the shell uses that one."""
    *rest, call = SCRIPT.splitlines()
    return "\n".join([*rest, f"{name}() {{ :; }}", call]) + "\n"


def test_each_check_holds_for_the_whole_script_and_fails_without_its_function(
    ready: Running,
) -> None:
    for name in CHECKS:
        assert not holds(ready, name), name
    assert ready.apply(SCRIPT).status == 0
    for name in CHECKS:
        assert holds(ready, name), name
    assert ready.undo(SCRIPT).status == 0
    ready.run("rm -f /run/simulated-kernel/initramfs")
    for name in CHECKS:
        ready.apply(emptied(name))
        assert not holds(ready, name), name
        ready.undo(SCRIPT)
        ready.run("rm -f /run/simulated-kernel/initramfs; touch /etc/ufw/enabled")
        ready.write("/run/selinux-mode", "Enforcing\n")
        ready.write(SELINUX, "SELINUX=enforcing\n")
        ready.run("systemctl enable --now firewalld; swapon /swap.img")
        ready.run("sed -i 's/^#gpu-cluster# //; / noauto /d' /etc/fstab")


def test_every_step_of_the_preparation_has_a_check() -> None:
    # test_software_mutants.py has the mutation tests of the steps that install software.
    system = {name for name in of_phase(Phase.PREPARE) if name not in SOFTWARE}
    assert {f"apply_{name}" for name in system} <= CHECKS.keys()
