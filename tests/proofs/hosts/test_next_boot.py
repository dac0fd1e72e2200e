"""Settings applied on a host still hold after a boot: kernel, kernel parameters and swap.

The simulated boot imitates UEFI firmware, GRUB and systemd by the sources that
`lab/simulator/hosts/boot.sh` cites. Systemd's own programs are run if this machine has them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from components.hosts.script import FOLDER
from lab.simulator.hosts import catalogue
from lab.simulator.hosts.packages import Package
from tests.proofs.hosts import software
from tests.proofs.hosts.declared import prepare
from tests.proofs.hosts.machine import Running, differences

pytestmark = pytest.mark.slow

GENERATOR = Path("/lib/systemd/system-generators/systemd-fstab-generator")
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


def test_a_menu_whose_default_is_set_elsewhere_is_a_failure(cluster: str, namespaces: None) -> None:
    """The script fails if another file sets the boot menu's default.

    Some sites' files set it by other words than `GRUB_DEFAULT=` at the start of a line.
    """
    host = software.start(cluster, "debian")
    host.write("/etc/default/grub.d/site.cfg", "export GRUB_DEFAULT=0\n")
    with software.serving("debian", catalogue.kernel_apt("6.1.0-42-amd64")) as kernels:
        sections = {"kernel": {"release": "6.1.0-42-amd64", "repository": kernels}}
        failed = host.apply(software.script(sections))
    assert failed.status == 1
    assert "found the default '0' in the boot menu /boot/grub/grub.cfg" in failed.errors
    assert "/etc/default/grub.d" in failed.errors


def test_a_host_that_systemd_boot_starts_is_refused(cluster: str, namespaces: None) -> None:
    host = software.start(cluster, "debian")
    host.write(f"{EFI}/placeholder", "")
    name = "LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
    text = "systemd-boot 252.38-1".encode("utf-16-le")
    (host.root / EFI.lstrip("/") / name).write_bytes(b"\x06\0\0\0" + text)
    host = reboot(cluster)
    before = host.tree(times=True)
    refused = host.apply(software.script({"kernel": {"release": "6.1.0-42-amd64"}}))
    assert refused.status == 1
    assert "found systemd-boot" in refused.errors
    assert "bootctl set-default" in refused.errors
    assert differences(before, host.tree(times=True)) == {}


FORWARD = "net.ipv4.ip_forward"
SITES = {
    # Debian, RHEL and Amazon Linux: /etc/sysctl.d/99-sysctl.conf is a link to /etc/sysctl.conf
    # (awslabs/amazon-eks-ami#746, openshift/openshift-ansible#6818).
    "99-sysctl.conf": "ln -sf ../sysctl.conf /etc/sysctl.d/99-sysctl.conf; "
    f"echo '{FORWARD} = 0' >/etc/sysctl.conf",
    # Google's images have /etc/sysctl.d/60-gce-network-security.conf (kubernetes/k8s.io#9630).
    "60-gce": f"echo '{FORWARD}=0' >/etc/sysctl.d/60-gce-network-security.conf",
    # Files of hardening guides have other names, folders and spellings of the parameter.
    "slashes": "mkdir -p /usr/lib/sysctl.d; "
    "echo 'net/ipv4/ip_forward=0' >/usr/lib/sysctl.d/99-zz-hardening.conf",
    "alias": "echo '-net.ipv4.conf.all.forwarding = 0' >/etc/sysctl.d/99-site.conf",
}


@pytest.mark.parametrize("site", SITES)
@pytest.mark.promise("Kernel parameters that Kubernetes needs hold after a boot.")
def test_kernel_parameters_hold_after_a_boot(cluster: str, namespaces: None, site: str) -> None:
    host = software.start(cluster, "debian")
    assert host.run(SITES[site]).status == 0
    before = host.tree()
    script = prepare()
    assert host.apply(script).status == 0
    host = reboot(cluster)
    assert host.run(f"sysctl -n {FORWARD}").output == "1\n"
    assert software.drift(host) == ()
    assert host.apply(script).output == "changed=0\n"
    assert host.undo(script).status == 0
    assert differences(before, host.tree()) == {}


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("/etc/sysctl.d/zzz-site.conf", "/etc/sysctl.d/zzz-site.conf"),
        ("/usr/lib/sysctl.d/zzz-site.conf", "/usr/lib/sysctl.d/zzz-site.conf"),
        ("/etc/ufw/sysctl.conf", "/etc/ufw/sysctl.conf"),
    ],
)
def test_a_file_that_a_boot_reads_after_ours_is_named_before_a_change(
    host: Running, place: str, named: str
) -> None:
    host.write(place, f"# site\n{FORWARD.replace('.', '/')} = 0\n")
    host.write("/etc/ufw/ufw.conf", "ENABLED=yes\n")
    host.write("/etc/default/ufw", "IPT_SYSCTL=/etc/ufw/sysctl.conf\n")
    before = host.tree(times=True)
    refused = host.apply(prepare())
    assert refused.status == 1
    assert f"found {FORWARD} = 0 in {named}" in refused.errors
    assert "nothing was changed on this host" in refused.errors
    assert differences(before, host.tree(times=True)) == {}


def test_a_later_file_that_is_masked_or_agrees_is_no_problem(host: Running) -> None:
    host.write("/usr/lib/sysctl.d/zzz-site.conf", f"{FORWARD} = 0\n")
    host.run("ln -s /dev/null /etc/sysctl.d/zzz-site.conf")
    host.write("/etc/sysctl.d/zzzz-site.conf", f"{FORWARD}=1\nnet.ipv4.conf.*.forwarding = 0\n")
    assert host.apply(prepare()).status == 0


ZRAM = "/usr/lib/systemd/system-generators/zram-generator"
SWAPS = {
    # Fedora since 33 installs the package zram-generator-defaults.
    "zram-generator": (
        f"mkdir -p {ZRAM.rpartition('/')[0]} && printf '#!/bin/sh\\n' >{ZRAM} && "
        f"chmod 755 {ZRAM} && "
        "printf '[zram0]\\nzram-size = min(ram, 8192)\\n' >/usr/lib/systemd/zram-generator.conf",
        "/dev/zram0",
    ),
    # A systemd swap unit of the site (systemd.swap(5)).
    "swap unit": (
        "mkdir -p /etc/systemd/system/swap.target.wants && "
        "printf '[Swap]\\nWhat=/swap/two\\n' >/etc/systemd/system/swap-two.swap && "
        "ln -s ../swap-two.swap /etc/systemd/system/swap.target.wants/swap-two.swap",
        "/swap/two",
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
    "fstab by UUID, tabs, priority": (
        "printf 'UUID=1a2b\\tnone\\tswap\\tsw,pri=5,nofail\\t0\\t0\\n' >>/etc/fstab",
        "UUID=1a2b",
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


@pytest.mark.skipif(not GENERATOR.exists(), reason=f"no {GENERATOR} on this machine")
def test_systemds_own_generator_leaves_our_lines_off(host: Running, tmp_path: Path) -> None:
    """The real systemd generator treats the swap lines that the script has edited as turned off.

    The generator logs how it reads each line of /etc/fstab; in a container it turns on no swap.
    """
    assert host.apply(prepare()).status == 0
    fstab = tmp_path / "fstab"
    fstab.write_text(host.read("/etc/fstab"))
    done = subprocess.run(
        [str(GENERATOR), *[str(tmp_path)] * 3],
        env={
            "SYSTEMD_FSTAB": str(fstab),
            "SYSTEMD_LOG_LEVEL": "debug",
            "SYSTEMD_LOG_TARGET": "console",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in done.stderr.splitlines() if "type=swap" in line)
    assert "what=/swap.img" in line
    assert "noauto=yes" in line


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_itself_reads_our_kernel_parameters_last(tmp_path: Path) -> None:
    """The script's file of kernel parameters is the last that systemd-sysctl reads.

    The real systemd-analyze prints the order of the files.
    """
    lines = (FOLDER / "sysctl.sh").read_text().splitlines()
    (ours,) = (line[12:] for line in lines if line.startswith("sysctl_file="))
    names = [ours, "/etc/sysctl.d/99-sysctl.conf", "/usr/lib/sysctl.d/99-zz.conf"]
    for name in names:
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    done = subprocess.run(
        ["systemd-analyze", f"--root={tmp_path}", "cat-config", "sysctl.d"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    read = [line.removeprefix(f"# {tmp_path}") for line in done.stdout.splitlines()]
    assert [line for line in read if line.endswith(".conf") and line.startswith("/")][-1] == ours
