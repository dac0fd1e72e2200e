"""Operating system settings of a host: firewall, SELinux and limits, applied and undone.

firewalld, ufw and SELinux are fakes (`fake_programs/`): firewalld needs D-Bus, ufw would change the
test machine's packet filter, and no test machine has a kernel with SELinux.
"""

from __future__ import annotations

import pytest

from gpu_cluster.hosts.steps.firewall import CONTROL_PLANE_PORTS
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.system import Firewall, SystemSettings
from tests.proofs.hosts import fakes
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.fakes import SELINUX, UNIT
from tests.proofs.hosts.machine import Running, differences


def script(**system: object) -> str:
    return prepare(system=SystemSettings.model_validate(system))


def ports(host: Running, path: str) -> list[str]:
    return host.read(path).split()


def check(host: Running, wanted: str, before: dict[str, str]) -> None:
    """Check that a second apply changes nothing and that undo restores the earlier files."""
    applied = host.tree(times=True)
    again = host.apply(wanted)
    assert (again.output, again.errors) == ("changed=0\n", "")
    assert differences(applied, host.tree(times=True)) == {}
    assert host.undo(wanted).status == 0
    assert differences(before, host.tree()) == {}


def test_firewalld_gets_the_ports_of_its_role_and_loses_them(host: Running) -> None:
    fakes.put(host, "firewall-cmd")
    host.write("/etc/systemd/system/firewalld.service", UNIT)
    host.write("/etc/firewalld/ports", "22/tcp\n10250/tcp\n")
    host.write("/run/firewalld-ports", "22/tcp\n10250/tcp\n")
    host.run("systemctl enable --now firewalld")
    wanted = prepare(
        system=SystemSettings(firewall=Firewall.RULES, firewall_ports=("8472/udp",)),
        role=Role.CONTROL_PLANE,
    )
    assert host.apply(wanted).status == 0
    for path in ("/etc/firewalld/ports", "/run/firewalld-ports"):
        assert sorted(ports(host, path)) == sorted([*CONTROL_PLANE_PORTS, "8472/udp", "22/tcp"])
    fewer = prepare(system=SystemSettings(firewall=Firewall.RULES), role=Role.CONTROL_PLANE)
    assert "- firewalld: 8472/udp closed" in host.apply(fewer).output
    assert "8472/udp" not in ports(host, "/etc/firewalld/ports")
    assert host.apply(fewer).output == "changed=0\n"
    assert host.undo(fewer).status == 0
    assert sorted(ports(host, "/etc/firewalld/ports")) == ["10250/tcp", "22/tcp"]
    assert sorted(ports(host, "/run/firewalld-ports")) == ["10250/tcp", "22/tcp"]


def test_ufw_gets_ranges_in_its_own_words(host: Running) -> None:
    fakes.put(host, "ufw")
    host.write("/etc/ufw/enabled", "")
    host.write("/etc/ufw/rules", "allow 22/tcp\n")
    wanted = script(firewall="rules")
    assert host.apply(wanted).status == 0
    assert "allow 30000:32767/udp comment 'gpu-cluster'\n" in host.read("/etc/ufw/rules")
    assert host.apply(wanted).output == "changed=0\n"
    assert host.undo(wanted).status == 0
    assert host.read("/etc/ufw/rules") == "allow 22/tcp\n"


def test_a_disabled_firewall_stays_off_over_a_reboot_and_comes_back(host: Running) -> None:
    fakes.put(host, "firewall-cmd", "ufw")
    host.write("/etc/systemd/system/firewalld.service", UNIT)
    host.write("/etc/ufw/enabled", "")
    host.run("systemctl enable --now firewalld")
    wanted = script(firewall="disable")
    assert host.apply(wanted).status == 0
    assert host.run("systemctl is-active firewalld").output == "inactive\n"
    assert host.run("systemctl is-enabled firewalld").output == "disabled\n"
    assert not host.exists("/etc/ufw/enabled")
    assert host.apply(wanted).output == "changed=0\n"
    assert host.undo(wanted).status == 0
    assert host.run("systemctl is-active firewalld").output == "active\n"
    assert host.run("systemctl is-enabled firewalld").output == "enabled\n"
    assert host.exists("/etc/ufw/enabled")


@pytest.mark.parametrize(
    ("now", "wanted", "after", "reboot"),
    [
        ("Enforcing", "permissive", "Permissive", ""),
        ("Permissive", "enforcing", "Enforcing", ""),
        ("Enforcing", "disabled", "Permissive", "SELinux is disabled by a boot only"),
        ("Disabled", "permissive", "Disabled", "SELinux goes from disabled to permissive"),
        ("Disabled", "disabled", "Disabled", ""),
    ],
)
def test_selinux_gets_its_mode_now_and_at_boot(
    host: Running, now: str, wanted: str, after: str, reboot: str
) -> None:
    fakes.put(host, "getenforce", "setenforce")
    host.write("/run/selinux-mode", f"{now}\n")
    host.write(SELINUX, f"# kept\nSELINUX={now.lower()}\nSELINUXTYPE=targeted\n")
    host.run(f"chmod 600 {SELINUX}")
    before = host.tree()
    done = host.apply(script(selinux=wanted))
    assert (done.status, done.errors) == (0, "")
    assert host.read(SELINUX) == f"# kept\nSELINUX={wanted}\nSELINUXTYPE=targeted\n"
    assert host.read("/run/selinux-mode") == f"{after}\n"
    pending = host.read("/run/gpu-cluster/reboot-required") if reboot else ""
    assert pending == (f"{reboot}\n" if reboot else "")
    assert host.exists("/.autorelabel") == (now == "Disabled" != wanted.capitalize())
    assert host.apply(script(selinux=wanted)).output == "changed=0\n"
    if host.exists("/.autorelabel"):
        # Remove this file, as a boot does after SELinux has relabeled the file system.
        host.run("rm /.autorelabel")
    assert host.undo(script(selinux=wanted)).status == 0
    assert differences(before, host.tree()) == {}
    assert host.read("/run/selinux-mode") == f"{now}\n"


def test_selinux_that_is_not_there_is_refused_only_where_it_is_wanted(host: Running) -> None:
    before = host.tree(times=True)
    refused = host.apply(script(selinux="enforcing"))
    assert refused.status == 1
    assert "found no SELinux" in refused.errors
    assert differences(before, host.tree(times=True)) == {}
    assert host.apply(script(selinux="disabled")).status == 0


def test_limits_hold_for_everybody_and_go_again(host: Running) -> None:
    before = host.tree()
    wanted = script(limits={"memlock": -1, "nofile": 1048576})
    assert host.apply(wanted).status == 0
    text = host.read("/etc/security/limits.d/99-gpu-cluster.conf")
    assert "* hard memlock unlimited\n" in text
    assert "root soft nofile 1048576\n" in text
    check(host, wanted, before)


EXCLUDED = "/etc/modprobe.d/gpu-cluster-excluded.conf"
PARAMS = "/proc/driver/nvidia/params"
UUIDS = tuple(f"GPU-0000000{n}-0000-4000-8000-000000000000" for n in (1, 2))
ASKED = "/run/gpu-cluster/reboot-required"


def loads_the_driver(host: Running, excluded: str) -> None:
    """Write the options of a loaded driver as the kernel module does.

    Source: NVIDIA/open-gpu-kernel-modules, nv-procfs.c.
    """
    text = f'EnableMSI: 1\nGpuBlacklist: ""\nTemporaryFilePath: ""\nExcludedGpus: "{excluded}"\n'
    host.run(f"mkdir -p {PARAMS.rpartition('/')[0]}")
    host.write(PARAMS, text)
    host.run(f"rm -f {ASKED}")


def test_gpus_are_left_out_by_uuid_from_the_drivers_next_start_on(host: Running) -> None:
    loads_the_driver(host, "")
    before = host.tree()
    wanted = prepare(excluded=UUIDS)
    assert host.apply(wanted).status == 0
    assert f"options nvidia NVreg_ExcludedGpus={','.join(UUIDS)}\n" in host.read(EXCLUDED)
    assert "other GPUs than declared" in host.read(ASKED)
    loads_the_driver(host, ",".join(UUIDS))
    assert host.apply(wanted).output == "changed=0\n"
    assert not host.exists(ASKED)
    assert host.undo(wanted).status == 0
    assert "no longer declared" in host.read(ASKED)
    loads_the_driver(host, "")
    assert differences(before, host.tree()) == {}


def test_a_host_without_excluded_gpus_keeps_what_its_site_leaves_out(host: Running) -> None:
    loads_the_driver(host, UUIDS[0])
    assert host.apply(prepare()).status == 0
    assert not host.exists(EXCLUDED)
    assert not host.exists(ASKED)


# Locked-memory limit of 4,096 KiB in bytes: a test process may not set a higher limit.
LOCKED = "4194304"


def locked(host: Running) -> str:
    """Return the locked-memory limit of containerd in bytes."""
    limits = host.run("cat /proc/$(cat /run/simulated-systemd/containerd.pid)/limits").output
    (line,) = (line for line in limits.splitlines() if line.startswith("Max locked memory"))
    return line.split()[3]


def test_a_declared_limit_holds_for_the_engine_at_once(host: Running) -> None:
    assert locked(host) != LOCKED
    wanted = script(limits={"memlock": 4096})
    applied = host.apply(wanted)
    assert applied.status == 0
    assert locked(host) == LOCKED
    assert "containerd restarted with what is declared for it" in applied.output
    assert host.apply(wanted).output == "changed=0\n"


def test_no_reload_takes_gpus_from_a_container_that_runs(host: Running) -> None:
    """The script doesn't restart containerd while a container uses a GPU.

    The next run tries again.
    """
    host.run("mkdir -p /dev; touch /dev/nvidiactl")
    host.write("/root/hidden", "0::/kubepods.slice/cri-containerd-abc.scope\n")
    # A bind mount puts this process into the cgroup of a pod, because no real pod runs here.
    host.run(
        "sleep 300 >/dev/null 2>&1 </dev/null & echo $! >/root/pid; "
        "mount --bind /root/hidden /proc/$!/cgroup"
    )
    wanted = script(limits={"memlock": 4096})
    applied = host.apply(wanted)
    assert applied.status == 0
    assert "a container that has GPUs runs" in applied.output
    assert locked(host) != LOCKED
    host.run("umount /proc/$(cat /root/pid)/cgroup; kill $(cat /root/pid)")
    assert host.apply(wanted).status == 0
    assert locked(host) == LOCKED
