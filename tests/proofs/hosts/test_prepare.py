"""Phase `prepare` on a simulated host: apply it, inspect the host without drift, and undo it."""

from __future__ import annotations

import pytest

from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.system import SystemSettings
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.locks import HOLD_THE_PACKAGE_LOCK
from tests.proofs.hosts.machine import Running, differences, start

SCRIPT = prepare()
MODULES = "/etc/modules-load.d/gpu-cluster.conf"
SYSCTL = "/etc/sysctl.d/zz-gpu-cluster.conf"
BLACKLIST = "/etc/modprobe.d/gpu-cluster-blacklist.conf"
FORWARD = "sysctl -n net.ipv4.ip_forward"


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_second_run_changes_nothing_and_undo_restores_every_byte(
    host: Running, shell: str
) -> None:
    before = host.tree()
    forward = host.run(FORWARD).output
    first = host.apply(SCRIPT, shell)
    assert (first.status, first.errors) == (0, "")
    assert first.changed == len([line for line in first.output.splitlines() if line[0] == "+"])
    assert host.read(MODULES).splitlines()[1:] == ["overlay", "br_netfilter"]
    assert "net.ipv4.ip_forward = 1" in host.read(SYSCTL)
    assert "blacklist nouveau\nblacklist nova_core\n" in host.read(BLACKLIST)
    assert "\n#gpu-cluster# /swap.img none swap sw 0 0\n" in host.read("/etc/fstab")
    assert "/swap.img" not in host.run("cat /proc/swaps").output
    assert host.run(FORWARD).output == "1\n"
    assert host.run("test -d /sys/module/br_netfilter").status == 0
    assert host.read("/run/simulated-kernel/initramfs").startswith("update-initramfs -u -k all ")

    applied = host.tree(times=True)
    second = host.apply(SCRIPT, shell)
    assert (second.output, second.errors) == ("changed=0\n", "")
    assert differences(applied, host.tree(times=True)) == {}

    undone = host.undo(SCRIPT, shell)
    assert (undone.status, undone.errors) == (0, "")
    assert undone.changed > 0
    assert differences(before, host.tree()) == {}
    assert "/swap.img" in host.run("cat /proc/swaps").output
    assert host.run(FORWARD).output == forward
    assert host.run("test -d /sys/module/br_netfilter").status == 1
    assert host.undo(SCRIPT, shell).output == "changed=0\n"


KERNELS = ("5.10.0-1-amd64", "99.0.0-1-amd64")
IMAGES = {"debian": "/boot/initrd.img-{}", "rocky": "/boot/initramfs-{}.img"}
"""Path of a kernel's initramfs on each operating system, with a place for the kernel release."""


def images(host: Running, system: str) -> dict[str, str]:
    """Create files of an older and a newer kernel; return the path of each kernel's initramfs.

    The running kernel is included.
    """
    running = host.run("uname -r").output.strip()
    for kernel in (running, *KERNELS):
        host.write(f"/boot/vmlinuz-{kernel}", "")
        host.write(f"/lib/modules/{kernel}/modules.dep", "")
        host.write(IMAGES[system].format(kernel), "as it was")
    return {kernel: IMAGES[system].format(kernel) for kernel in (running, *KERNELS)}


@pytest.mark.parametrize("system", IMAGES)
def test_whichever_kernel_boots_next_keeps_nouveau_away_until_it_is_taken_back(
    cluster: str, namespaces: None, system: str
) -> None:
    (host,) = start(cluster, "gpu-1", mode="namespaces", system=system)
    kernels = images(host, system)
    done = host.apply(SCRIPT)
    assert (done.status, done.errors) == (0, "")
    for image in kernels.values():
        assert "blacklist nouveau\n" in host.read(image), image
    assert host.undo(SCRIPT).status == 0
    for image in kernels.values():
        assert "blacklist nouveau" not in host.read(image), image
        assert host.read(image) != "as it was", image


@pytest.mark.refusal(by="fake")
def test_an_image_that_is_not_updated_stops_the_run_until_it_is(host: Running) -> None:
    kernels = images(host, "debian")
    settings = "/etc/initramfs-tools/update-initramfs.conf"
    host.write(settings, "update_initramfs=no\n")
    # The initramfs file exists but wasn't updated. The second run must also notice this.
    for _ in range(2):
        done = host.apply(SCRIPT)
        assert done.status == 1
        assert "wanted each kernel's initramfs as /etc/modprobe.d is now" in done.errors
    host.write(settings, "update_initramfs=yes\n")
    assert host.apply(SCRIPT).status == 0
    for image in kernels.values():
        assert "blacklist nouveau\n" in host.read(image), image
    assert host.apply(SCRIPT).output == "changed=0\n"
    host.write(settings, "update_initramfs=no\n")
    undone = host.undo(SCRIPT)
    assert undone.status == 0
    assert '! found "update-initramfs: Not updating initramfs."' in undone.output


@pytest.mark.parametrize("free", [999999, 10])
def test_the_initramfs_that_boots_now_is_kept_beside_the_new_one(host: Running, free: int) -> None:
    """The old initramfs is kept next to the new one if /boot has space for both.

    It is needed for hosts that don't boot with the new initramfs.
    """
    release = host.run("uname -r").output.strip()
    image = f"/boot/initrd.img-{release}"
    host.write(image, "as it was")
    host.write("/usr/sbin/update-initramfs", f"#!/bin/sh\nprintf new >{image}\n")
    answer = f"Filesystem 1024-blocks Used Available Capacity Mounted\n/dev/x 1 1 {free} 1% /boot"
    table = f'case "$*" in *boot*) echo \'{answer}\' ;; *) exec /usr/bin/df "$@" ;; esac'
    host.write("/usr/local/sbin/df", f"#!/bin/sh\n{table}\n")
    host.run("chmod 755 /usr/sbin/update-initramfs /usr/local/sbin/df")
    applied = host.apply(SCRIPT)
    assert (applied.status, host.read(image)) == (0, "new")
    copy = f"{image}.gpu-cluster-before"
    assert host.exists(copy) is (free > 10)
    assert ("is not kept" in applied.output) is (free == 10)
    if host.exists(copy):
        assert host.read(copy) == "as it was"
    assert host.apply(SCRIPT).output == "changed=0\n"
    assert host.undo(SCRIPT).status == 0
    assert not host.exists(copy)


def test_a_reboot_keeps_what_was_applied(host: Running) -> None:
    assert host.apply(SCRIPT).status == 0
    (again,) = start(host.cluster, "gpu-1", mode="namespaces")
    assert "/swap.img" not in again.run("cat /proc/swaps").output
    assert again.run(FORWARD).output == "1\n"
    assert again.apply(SCRIPT).output == "changed=0\n"


def test_files_that_were_there_come_back_byte_for_byte(host: Running) -> None:
    host.write(SYSCTL, "# mine, no newline at the end")
    host.run(
        f"chmod 640 {SYSCTL}; touch -d 2001-01-01 {SYSCTL}; rm -f /etc/fstab; "
        "printf '/dev/sdb none swap sw 0 0' >/root/tab; ln -s /root/tab /etc/fstab; "
        f"mkdir -p /etc/modprobe.d; ln -s /dev/null {BLACKLIST}"
    )
    before = host.tree()
    assert host.apply(SCRIPT).status == 0
    assert "#gpu-cluster# /dev/sdb" in host.read("/etc/fstab")
    assert "ip_forward" in host.read(SYSCTL)
    assert host.undo(SCRIPT).status == 0
    assert differences(before, host.tree()) == {}


def test_whatever_the_umask_of_the_login_files_of_etc_can_be_read_and_our_state_can_not(
    host: Running,
) -> None:
    assert host.run("umask 077; sh -s -- apply", SCRIPT).status == 0
    modes = host.run(f"stat -c %a /etc/modules-load.d {SYSCTL} /var/lib/gpu-cluster")
    assert modes.output.split() == ["755", "644", "700"]


def test_drift_is_repaired_and_nothing_else_is_touched(host: Running) -> None:
    host.apply(SCRIPT)
    before = host.tree(times=True)
    host.write(SYSCTL, "net.ipv4.ip_forward = 0\n")
    host.run("sysctl -w net.ipv4.ip_forward=0; swapon /swap.img")
    repaired = host.apply(SCRIPT)
    assert repaired.output.splitlines() == [
        "+ swap off: /swap.img",
        f"+ {SYSCTL}",
        "+ sysctl net.ipv4.ip_forward: 0 -> 1",
        "changed=3",
    ]
    assert differences(before, host.tree(times=True)).keys() == {SYSCTL[1:], "etc/sysctl.d"}


def test_what_somebody_else_wrote_since_is_not_lost(host: Running) -> None:
    host.apply(SCRIPT)
    host.write(SYSCTL, "theirs\n")
    host.write("/etc/fstab", host.read("/etc/fstab") + "/dev/sdz /data ext4 defaults 0 0\n")
    undone = host.undo(SCRIPT)
    assert undone.status == 0
    assert not host.exists(SYSCTL)
    assert host.read(f"/var/lib/gpu-cluster/replaced{SYSCTL}") == "theirs\n"
    assert host.read("/etc/fstab").endswith(
        "/swap.img none swap sw 0 0\n/dev/sdz /data ext4 defaults 0 0\n"
    )
    assert undone.output.count("changed by somebody else") == 2


def test_a_setting_that_is_no_longer_declared_is_taken_back(host: Running) -> None:
    before = host.tree()
    host.apply(SCRIPT)
    more = prepare(system=SystemSettings(sysctl={"vm.max_map_count": "262144"}))
    assert "+ sysctl vm.max_map_count" in host.apply(more).output
    smaller = prepare(role=Role.CPU_WORKER)
    again = host.apply(smaller)
    assert again.status == 0
    assert "- sysctl vm.max_map_count: " in again.output
    assert not host.exists(BLACKLIST)
    assert "max_map_count" not in host.read(SYSCTL)
    assert host.apply(smaller).output == "changed=0\n"
    assert host.undo(smaller).status == 0
    assert differences(before, host.tree()) == {}


def test_preflight_tells_everything_and_touches_nothing(host: Running) -> None:
    host.write("/etc/os-release", "ID=plan9\n")
    host.write("/root/hold.pl", HOLD_THE_PACKAGE_LOCK)
    host.run("perl /root/hold.pl </dev/null >/dev/null 2>&1 & until [ -e /run/held ]; do :; done")
    before = host.tree(times=True)
    refused = host.apply(prepare(kernel="99.0", disk_mib="1000000000", package_lock_limit="1"))
    assert refused.status == 1
    assert "changed=" not in refused.output
    for text in (
        "error: host gpu-1: found operating system 'plan9'",
        "; wanted 99.0 or later; upgrade the kernel",
        "MiB free in /var/lib; wanted 1000000000 MiB",
        "found /var/lib/dpkg/lock-frontend held by process",
        "nothing was changed on this host",
    ):
        assert text in refused.errors
    assert differences(before, host.tree(times=True)) == {}


def test_nouveau_in_use_asks_for_a_reboot(host: Running) -> None:
    host.run("modprobe nouveau")
    assert "! reboot needed: nouveau is loaded" in host.apply(SCRIPT).output


def test_a_cut_off_script_does_nothing(host: Running) -> None:
    before = host.tree(times=True)
    for size in (len(SCRIPT) // 3, len(SCRIPT) - len('main "$@" </dev/null\n')):
        host.apply(SCRIPT[:size])
        assert differences(before, host.tree(times=True)) == {}


def test_two_runs_take_turns(host: Running) -> None:
    host.copy_steps(SCRIPT)
    host.write("/root/script", SCRIPT)
    both = host.run("for i in 1 2; do sh -s -- apply </root/script & done; wait")
    assert sorted(line for line in both.output.splitlines() if line.startswith("changed=")) == [
        "changed=0",
        "changed=7",
    ]


def test_a_lock_that_stays_held_is_named(host: Running) -> None:
    host.run("flock /run/gpu-cluster.lock sleep 120 >/dev/null 2>&1 </dev/null & sleep 0.2")
    refused = host.apply(prepare(lock_limit="1"))
    assert refused.status == 1
    assert "another run held /run/gpu-cluster.lock for 1 s" in refused.errors


def test_another_argument_than_apply_or_undo_is_refused(host: Running) -> None:
    wrong = host.run("sh -s -- purge", SCRIPT)
    assert wrong.status == 1
    assert "name one of apply, fetch, upgrade and undo" in wrong.errors
