"""Settings applied on a host still hold after a boot: kernel, kernel parameters and swap.

The simulated boot imitates UEFI firmware, GRUB and systemd by the sources that
`embedded/gpu_cluster_lab/simulator/hosts/boot.sh` cites. tests/proofs/world/hosts has more files of
kernel parameters, swap and GRUB, read by systemd's own programs.
"""

from __future__ import annotations

import pytest

from gpu_cluster_lab.simulator.hosts import catalogue
from gpu_cluster_lab.simulator.hosts.packages import Package
from tests.proofs.hosts import software
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.machine import Running, differences

pytestmark = pytest.mark.slow

EFI = "/usr/lib/simulated/efi/efivars"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
PINNED = "4.18.0-553.99.1.el8_10.x86_64"
ENTRY = f"0123456789abcdef0123456789abcdef-{PINNED}"
WRAPPER = """\
search --no-floppy --fs-uuid --set=dev 1a2b
set prefix=($dev)/grub2
configfile $prefix/grub.cfg
"""


def reboot(cluster: str, system: str = "debian") -> Running:
    """Start the host again with the same files and an empty /run, as a boot does."""
    return software.start(cluster, system)


def firmware(host: Running, loader: str) -> None:
    """Give the host a UEFI firmware whose current boot entry starts this boot loader."""
    host.write(f"{EFI}/placeholder", "")
    folder = host.root / EFI.lstrip("/")
    (folder / f"BootCurrent-{GLOBAL}").write_bytes(b"\x06\0\0\0\x01\0")
    path = loader.replace("/", "\\").encode("utf-16-le")
    (folder / f"Boot0001-{GLOBAL}").write_bytes(b"\x07\0\0\0\x01\0\0\0" + path + b"\0\0")


def kernel() -> list[Package]:
    """Return the packages of a kernel with a boot entry, as kernel-install writes it on RHEL."""
    (image, *rest) = catalogue.kernel_dnf(PINNED, "kernel")
    entry = f"/boot/loader/entries/{ENTRY}.conf"
    files = {**image.files, entry: f"title simulated\nlinux /boot/vmlinuz-{PINNED}\n"}
    return [Package(image.name, image.version, files), *rest]


@pytest.mark.parametrize(
    ("loader", "grub_cfg", "menu"),
    [
        # RHEL 8: the grub.cfg on the EFI system partition is the boot menu
        # (rhinstaller/anaconda#3151).
        ("/EFI/redhat/shimx64.efi", "blscfg\n", "boot/efi/EFI/redhat/grub.cfg"),
        # RHEL 9: the grub.cfg on the EFI system partition only reads the boot menu, and
        # grub2-mkconfig refuses to replace this file.
        ("/EFI/redhat/shimx64.efi", WRAPPER, "boot/grub2/grub.cfg"),
        # A host that convert2rhel has changed has the EFI folders of both distributions
        # (oamg/convert2rhel#1444).
        ("/EFI/CENTOS/shimx64.efi", "blscfg\n", "boot/efi/EFI/centos/grub.cfg"),
        # A host with BIOS has no EFI system partition.
        ("", "blscfg\n", "boot/grub2/grub.cfg"),
    ],
)
@pytest.mark.promise("A pinned kernel is the one that boots, by BIOS and by UEFI firmware.")
def test_a_pinned_kernel_boots_from_the_menu_that_the_firmware_loads(
    cluster: str, namespaces: None, loader: str, grub_cfg: str, menu: str
) -> None:
    host = software.start(cluster, "rocky")
    if loader:
        firmware(host, loader)
    for vendor in ("redhat", "centos"):
        host.write(f"/boot/efi/EFI/{vendor}/grub.cfg", f'set default="0"\n{grub_cfg}')
    host.write("/etc/default/grub", "GRUB_DEFAULT=saved\nGRUB_ENABLE_BLSCFG=true\n")
    running = host.run("uname -r").output.strip()
    newest = "99.0.0-1.el8.x86_64"
    for name, release in (("old", running), ("new", newest)):
        text = f"title {name}\nlinux /boot/vmlinuz-{release}\n"
        host.write(f"/boot/loader/entries/{name}-{release}.conf", text)
    host.write("/boot/grub2/grub.cfg", 'set default="${saved_entry}"\nblscfg\n')
    host.write("/boot/grub2/grubenv", f"saved_entry=old-{running}\n")
    host = reboot(cluster, "rocky")
    with software.serving("rocky", kernel()) as kernels:
        script = software.script({"kernel": {"release": PINNED, "repository": kernels}})
        done = host.apply(script)
        assert (done.status, done.errors) == (0, "")
        assert f'set default="{ENTRY}"' in host.read(menu)
        host = reboot(cluster, "rocky")
        assert host.run("uname -r").output == f"{PINNED}\n"
        assert host.apply(script).output == "changed=0\n"


FORWARD = "net.ipv4.ip_forward"


@pytest.mark.promise("Kernel parameters that Kubernetes needs hold after a boot.")
def test_kernel_parameters_hold_after_a_boot(cluster: str, namespaces: None) -> None:
    """Debian, RHEL and Amazon Linux link 99-sysctl.conf to /etc/sysctl.conf.

    Sources: awslabs/amazon-eks-ami#746, openshift/openshift-ansible#6818. Other files are rows of
    tests/proofs/world/hosts/situations/sysctl.yaml.
    """
    host = software.start(cluster, "debian")
    host.write("/etc/sysctl.conf", f"{FORWARD} = 0\n")
    host.run("ln -sf ../sysctl.conf /etc/sysctl.d/99-sysctl.conf")
    before = host.tree()
    script = prepare()
    assert host.apply(script).status == 0
    host = reboot(cluster)
    assert host.run(f"sysctl -n {FORWARD}").output == "1\n"
    assert software.drift(host) == ()
    assert host.apply(script).output == "changed=0\n"
    assert host.undo(script).status == 0
    assert differences(before, host.tree()) == {}


def test_a_file_that_a_boot_reads_after_ours_is_named_before_a_change(host: Running) -> None:
    host.write("/etc/sysctl.d/zzz-site.conf", f"{FORWARD} = 0\n")
    before = host.tree(times=True)
    refused = host.apply(prepare())
    assert refused.status == 1
    assert f"found {FORWARD} = 0 in /etc/sysctl.d/zzz-site.conf" in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert differences(before, host.tree(times=True)) == {}


ZRAM = "/usr/lib/systemd/system-generators/zram-generator"
SWAPS = {
    # Fedora since 33 installs the package zram-generator-defaults.
    "zram-generator": (
        f"mkdir -p {ZRAM.rpartition('/')[0]} && printf '#!/bin/sh\\n' >{ZRAM} && "
        f"chmod 755 {ZRAM} && "
        "printf '[zram0]\\nzram-size = min(ram, 8192)\\n' >/usr/lib/systemd/zram-generator.conf",
        "/dev/zram0",
    ),
    # A swap partition without a line in fstab: systemd finds it by its type in the partition table.
    "partition type": (
        "sed -i '/swap/d' /etc/fstab && echo /dev/vda3 >/usr/lib/simulated/gpt-swap",
        "/dev/vda3",
    ),
    # A swap partition with a line in fstab: without this line, systemd still finds it by its
    # partition type.
    "partition type and fstab": (
        "sed -i 's|^/swap.img|/dev/vda3|' /etc/fstab && "
        "echo /dev/vda3 >/usr/lib/simulated/gpt-swap",
        "/dev/vda3",
    ),
    # Source: Azure/WALinuxAgent, README, ResourceDisk.EnableSwap.
    "Azure's agent": (
        "printf 'ResourceDisk.Format=y\\nResourceDisk.EnableSwap=y\\n' >/etc/waagent.conf && "
        "mkdir -p /etc/systemd/system/multi-user.target.wants && "
        "ln -s /lib/systemd/system/waagent.service /etc/systemd/system/multi-user.target.wants/",
        "/mnt/resource/swapfile",
    ),
}  # fmt: skip


@pytest.mark.parametrize("site", SWAPS)
@pytest.mark.promise("Swap stays off after a boot, whatever turned it on before.")
def test_swap_stays_off_after_a_boot(cluster: str, namespaces: None, site: str) -> None:
    command, device = SWAPS[site]
    host = software.start(cluster, "debian")
    made = host.run(f"mkdir -p /usr/lib/simulated && {command}")
    assert made.status == 0, made
    host = reboot(cluster)
    assert device in host.read("/proc/swaps")
    before = host.tree()
    script = prepare()
    done = host.apply(script)
    assert (done.status, done.errors) == (0, "")
    assert host.apply(script).output == "changed=0\n"
    assert software.drift(host) == ()
    host = reboot(cluster)
    assert host.read("/proc/swaps").count("\n") == 1
    assert host.apply(script).output == "changed=0\n"
    assert host.undo(script).status == 0
    assert differences(before, host.tree()) == {}
    host = reboot(cluster)
    assert device in host.read("/proc/swaps")


@pytest.mark.parametrize(
    ("command", "drift"),
    [
        ("echo '/dev/vdb none swap sw 0 0' >>/etc/fstab", "swap at the next boot: /dev/vdb"),
        (
            "mkdir -p /etc/systemd/system/swap.target.wants && "
            "ln -s ../a.swap /etc/systemd/system/swap.target.wants/",
            "swap at the next boot: a.swap",
        ),
    ],
)
def test_swap_that_would_come_back_is_drift(host: Running, command: str, drift: str) -> None:
    script = prepare()
    assert host.apply(script).status == 0
    assert host.run(command).status == 0
    assert drift in software.drift(host)
    assert host.apply(script).status == 0
    assert software.drift(host) == ()


def test_swap_by_a_script_of_the_boot_is_named_before_a_change(host: Running) -> None:
    host.write("/etc/rc.local", "#!/bin/sh\nswapon /swap.img\n")
    host.run("chmod 755 /etc/rc.local")
    before = host.tree(times=True)
    refused = host.apply(prepare())
    assert refused.status == 1
    assert "found swapon in /etc/rc.local" in refused.errors
    assert differences(before, host.tree(times=True)) == {}
