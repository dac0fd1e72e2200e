"""Systems of hosts and what their own upgrades bring: kernels, drivers, other packages.

Each system has the real package manager and real package names and relations; the packages'
contents are simulated. The scripts of kernel packages do what the kernel hooks of the distribution
do: a new entry in the boot menu, and the driver's module by DKMS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_cluster_lab.simulator.hosts import contents, package_graph
from gpu_cluster_lab.simulator.hosts.packages import Package
from tests.proofs.hosts.machine import Running

MODULES = 'dkms autoinstall -k "%s" >/dev/null 2>&1 || true'


@dataclass(frozen=True)
class System:
    """Operating system of a host, with the kernels before and after its upgrade.

    Attributes:
        root: Simulated file system with the package manager: `debian`, `debian13`, `rocky` or
            `fedora`.
        about: Text of /etc/os-release.
        graph: Package graph with the names of NVIDIA's repository for the system.
        kernels: Release of the kernel that runs, and of the newer one.
        kernel: Package that brings the newest kernel: a metapackage of apt, or a package of dnf.
        upgrade: Commands of the system's own upgrade.
        dist: Distribution tag of RPM packages.
        modular: NVIDIA's repository for the system has module streams.
        origins: Lines of the Release file of the distribution's repository with updates.
        keeps: The kernel is pinned by `kernel.release`, so the upgrade must not move it.
        archive: Updates come from Debian's own archive too: those of its suite with this ending.
    """

    root: str
    about: str
    graph: str
    kernels: tuple[str, str]
    kernel: str
    upgrade: tuple[str, ...]
    dist: str = ""
    modular: bool = False
    origins: str = ""
    keeps: bool = False
    archive: str = ""

    @property
    def apt(self) -> bool:
        """Check that the system has apt; other systems have dnf."""
        return self.root.startswith("debian")

    def drivers(self, *versions: str) -> list[Package]:
        """Return the packages of NVIDIA's repository for these driver versions."""
        graph = package_graph.load(self.graph)
        return graph.packages("cuda", versions, dist=self.dist or "el9")

    def streams(self, *versions: str) -> str:
        """Return the text of `modules.yaml` of NVIDIA's repository, if the system has streams."""
        return package_graph.load(self.graph).modules(versions, self.dist) if self.modular else ""

    def kernel_packages(self, release: str) -> list[Package]:
        """Return the packages of one kernel, with what selects the newest kernel."""
        return self._debian_kernel(release) if self.apt else self._rpm_kernel(release)

    def _debian_kernel(self, release: str) -> list[Package]:
        """Return a kernel of Debian or Ubuntu.

        Source: packages.debian.org and packages.ubuntu.com, linux-image-*, linux-headers-* and
        linux-modules-*, their Depends; postinst of the image (/etc/kernel/postinst.d).
        """
        number = release.removesuffix("-generic").removesuffix("-amd64").removesuffix("-cloud")
        ubuntus = "ubuntu" in self.about
        version = f"{number}.{number.rpartition('-')[2]}" if ubuntus else f"{number}-1"
        image, headers = f"linux-image-{release}", f"linux-headers-{release}"
        modules = f"linux-modules-{release}"
        extra = f"linux-modules-extra-{release}"
        entry = "grub-mkconfig -o /boot/grub/grub.cfg >/dev/null"
        files = {f"/boot/vmlinuz-{release}": "simulated kernel image\n"}
        depends = (modules,) if ubuntus else ()
        found = [
            Package(image, version, files, depends=depends, installed=entry),
            Package(headers, version, contents.build_files(release), installed=MODULES % release),
            Package(self.kernel, version, depends=(image,)),
            Package(self.kernel.replace("image", "headers"), version, depends=(headers,)),
        ]
        if depends:
            found += [Package(modules, version), Package(extra, version, depends=(modules,))]
        return found

    def _rpm_kernel(self, release: str) -> list[Package]:
        """Return a kernel of dnf.

        Source: kernel.spec of RHEL 9 (kernel-core, kernel-modules and kernel-devel with
        installonlypkg() and kernel-uname-r), kernel-uek.spec of Oracle Linux 9, kernel6.12.spec of
        Amazon Linux 2023 (one package with image and modules, kernel6.12-modules-extra).
        """
        name, version = self.kernel, release.rpartition(".")[0]
        image = {f"/boot/vmlinuz-{release}": "simulated kernel image\n"}
        entry = "grub2-mkconfig -o /boot/grub2/grub.cfg >/dev/null"
        same = f"{name}-uname-r = {release}"
        core = Package(
            f"{name}-core",
            version,
            image,
            provides=(same, "installonlypkg(kernel)"),
            installed=entry,
        )
        parts = [Package(f"{name}-modules-extra", version, depends=(same,))]
        if name.startswith("kernel6"):
            parts.append(replace(core, name=name))
        else:
            module = (f"{name}-modules-uname-r = {release}", "installonlypkg(kernel-module)")
            parts = [replace(part, provides=module[1:]) for part in parts]
            parts += [
                core,
                Package(f"{name}-modules", version, depends=(same,), provides=module),
                Package(name, version, depends=(same, module[0]), provides=module[1:]),
            ]
        devel = (f"kernel-devel-uname-r = {release}", "installonlypkg(kernel)")
        build_files = contents.build_files(release)
        return [
            *parts,
            Package(
                f"{name}-devel", version, build_files, provides=devel, installed=MODULES % release
            ),
            Package("kernel-headers", version, {"/usr/include/kernel-simulated.h": f"{version}\n"}),
            Package("kernel-tools", version),
        ]

    def image(self) -> tuple[str, ...]:
        """Return the packages that an image of the system has, besides those of the simulation."""
        if self.apt:
            return (self.kernel, "site-tool")
        return (self.kernel, f"{self.kernel}-modules-extra", "kernel-tools", "site-tool")


UNATTENDED = "apt-get -q update && unattended-upgrade --verbose"  # As apt-daily.service does.
EVERYTHING = "apt-get -q update && apt-get -y -q upgrade && apt-get -y -q dist-upgrade"
DNF_AUTOMATIC = "import sys; from dnf.automatic.main import main; sys.exit(main(sys.argv[1:]))"
"""Content of the program dnf-automatic, which Debian's packages of dnf don't have."""
AUTOMATIC = f"python3 -c '{DNF_AUTOMATIC}' /etc/dnf/automatic.conf --installupdates"
UPGRADE = "dnf -y --setopt=best=True upgrade"  # RHEL's default: all updates, or none.


def debian(number: str, codename: str) -> str:
    return (
        f'NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="{number}"\nVERSION_CODENAME={codename}\n'
    )


def ubuntu(number: str, codename: str) -> str:
    return (
        f'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="{number}"\n'
        f"VERSION_CODENAME={codename}\nUBUNTU_CODENAME={codename}\n"
    )


def rpm(name: str, number: str, like: str = "rhel fedora") -> str:
    return f'NAME="{name}"\nID={name}\nID_LIKE="{like}"\nVERSION_ID="{number}"\n'


def fields(origin: str, label: str, suite: str, codename: str) -> str:
    """Return fields of a Release file, as the archives of Debian and Ubuntu have them."""
    return f"Origin={origin}\nLabel={label}\nSuite={suite}\nCodename={codename}\n"


RHEL_9 = System(
    "rocky",
    rpm("rhel", "9.6"),
    "rhel",
    ("5.14.0-570.12.1.el9_6.x86_64", "5.14.0-570.19.1.el9_6.x86_64"),
    "kernel",
    (UPGRADE,),
    dist="el9",
    modular=True,
)
SYSTEMS = {
    "Debian 12": System(
        "debian",
        debian("12", "bookworm"),
        "debian12",
        ("6.1.0-40-amd64", "6.1.0-42-amd64"),
        "linux-image-amd64",
        (UNATTENDED, EVERYTHING),
        origins=fields("Debian", "Debian-Security", "stable-security", "bookworm-security"),
    ),
    "Debian 12, its real archive": System(
        "debian",
        debian("12", "bookworm"),
        "debian12",
        ("6.1.0-40-amd64", "6.1.0-42-amd64"),
        "linux-image-amd64",
        (UNATTENDED,),
        origins=fields("Debian", "Debian-Security", "stable-security", "bookworm-security"),
        keeps=True,
        archive="-security",
    ),
    "Debian 13": System(
        "debian13",
        debian("13", "trixie"),
        "debian12",
        ("6.12.43+deb13-cloud-amd64", "6.12.48+deb13-cloud-amd64"),
        "linux-image-cloud-amd64",
        (UNATTENDED, EVERYTHING),
        origins=fields("Debian", "Debian-Security", "stable-security", "trixie-security"),
    ),
    "Ubuntu 22.04": System(
        "debian",
        ubuntu("22.04", "jammy"),
        "ubuntu24.04",
        ("6.8.0-71-generic", "6.8.0-117-generic"),
        "linux-image-generic-hwe-22.04",
        (UNATTENDED, EVERYTHING),
        origins=fields("Ubuntu", "Ubuntu", "jammy-security", "jammy"),
    ),
    "Ubuntu 24.04": System(
        "debian",
        ubuntu("24.04", "noble"),
        "ubuntu24.04",
        ("6.8.0-71-generic", "6.8.0-117-generic"),
        "linux-image-virtual",
        (UNATTENDED, EVERYTHING),
        origins=fields("Ubuntu", "Ubuntu", "noble-security", "noble"),
    ),
    "Ubuntu 24.04, kernel pinned": System(
        "debian",
        ubuntu("24.04", "noble"),
        "ubuntu24.04",
        ("6.8.0-71-generic", "6.8.0-117-generic"),
        "linux-image-generic",
        (UNATTENDED, EVERYTHING),
        origins=fields("Ubuntu", "Ubuntu", "noble-security", "noble"),
        keeps=True,
    ),
    "Ubuntu 26.04": System(
        "debian13",
        ubuntu("26.04", "resolute"),
        "ubuntu24.04",
        ("7.0.0-12-generic", "7.0.0-15-generic"),
        "linux-image-generic",
        (UNATTENDED, EVERYTHING),
        origins=fields("Ubuntu", "Ubuntu", "resolute-security", "resolute"),
    ),
    "RHEL 8": System(
        "rocky",
        rpm("rhel", "8.10"),
        "rhel",
        ("4.18.0-553.16.1.el8_10.x86_64", "4.18.0-553.75.1.el8_10.x86_64"),
        "kernel",
        (AUTOMATIC, UPGRADE),
        dist="el8",
        modular=True,
    ),
    "RHEL 9": RHEL_9,
    "RHEL 9, dnf-automatic": replace(RHEL_9, upgrade=(AUTOMATIC, UPGRADE)),
    "RHEL 9, kernel pinned": replace(RHEL_9, upgrade=(AUTOMATIC, UPGRADE), keeps=True),
    "RHEL 10": System(
        "rocky",
        rpm("rhel", "10.0"),
        "rhel",
        ("6.12.0-55.9.1.el10_0.x86_64", "6.12.0-55.29.1.el10_0.x86_64"),
        "kernel",
        (AUTOMATIC, UPGRADE),
        dist="el10",
    ),
    "Oracle Linux 9 with UEK": System(
        "rocky",
        rpm("ol", "9.6", "fedora"),
        "rhel",
        ("5.15.0-209.161.7.2.el9uek.x86_64", "5.15.0-310.184.5.2.el9uek.x86_64"),
        "kernel-uek",
        (AUTOMATIC, UPGRADE),
        dist="el9",
        modular=True,
    ),
    "Oracle Linux 9 with UEK, kernel pinned": System(
        "rocky",
        rpm("ol", "9.6", "fedora"),
        "rhel",
        ("5.15.0-209.161.7.2.el9uek.x86_64", "5.15.0-310.184.5.2.el9uek.x86_64"),
        "kernel-uek",
        (AUTOMATIC, UPGRADE),
        dist="el9",
        modular=True,
        keeps=True,
    ),
    "Amazon Linux 2023": System(
        "rocky",
        rpm("amzn", "2023", "fedora"),
        "rhel",
        ("6.12.37-61.105.amzn2023.x86_64", "6.12.46-66.121.amzn2023.x86_64"),
        "kernel6.12",
        (
            UPGRADE,
        ),  # Amazon Linux has no automatic upgrades: its releases are chosen by --releasever.
        dist="amzn2023",
        modular=True,
    ),
    "Fedora 42": System(
        "fedora",
        rpm("fedora", "42", ""),
        "rhel",
        ("6.14.0-63.fc42.x86_64", "6.16.7-200.fc42.x86_64"),
        "kernel",
        (UPGRADE,),
        dist="fc42",
    ),
}
"""Each system by its name; after a comma comes a further case of the same system."""


def boot_image(host: Running, system: System) -> None:
    """Make a started host the system: its name, and the kernel that the next start boots."""
    host.write("/etc/os-release", system.about)
    if not system.apt:  # As in RHEL; Debian's dnf serves again what it has installed once.
        host.write("/etc/dnf/plugins/local.conf", "[main]\nenabled = false\n")
    host.run("rm -f /boot/vmlinuz-*")
    running = system.kernels[0]
    host.write(f"/boot/vmlinuz-{running}", "simulated kernel image\n")
    tool = "grub-mkconfig -o /boot/grub" if system.apt else "grub2-mkconfig -o /boot/grub2"
    host.run(f"{tool}/grub.cfg")
