"""Contents of the simulated package repositories: fakes of real packages and installers.

The files are in `fakes/`; each fake program reports in its output that it is simulated. `@VERSION@`
in a file is replaced by the package's version.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from gpu_cluster_lab.simulator.hosts import contents, package_graph
from gpu_cluster_lab.simulator.hosts.packages import Package

KERNEL_APT = "6.1.0-40-amd64"
"""Kernel release of a simulated Debian host, with its files in fixtures/boot."""
KERNEL_DNF = "5.14.0-570.12.1.el9_6.x86_64"
"""Kernel release of a simulated RPM host, with its files in fixtures_rpm/boot."""


GRAPHS = {"debian": "debian12", "ubuntu": "ubuntu24.04", "rocky": "rhel"}
"""Package graph for each operating system of simulated hosts."""


def _fake_files(folder: str, version: str) -> dict[str, str]:
    """Return the files below `fakes/<folder>/usr`, by their path on a simulated host."""
    base = contents.TEXTS / folder
    paths = [str(path.relative_to(base)) for path in sorted((base / "usr").rglob("*"))]
    text_groups = [
        contents.texts(f"{folder}/{path}", version) for path in paths if (base / path).is_file()
    ]
    return {path: text for texts in text_groups for path, text in texts.items()}


def build_tools(system: str = "debian") -> list[Package]:
    """Return the packages that build kernel modules: compiler, make, pciutils and DKMS.

    DKMS is from the distribution, on RPM hosts from EPEL.
    """
    plain = [
        Package(name, version, {f"/usr/bin/{name}": f'#!/bin/sh\necho "{name} (simulated)"\n'})
        for name, version in (("gcc", "12.2.0-3"), ("make", "4.3-4"))
    ]
    lspci = {"/usr/bin/lspci": "#!/bin/sh\necho simulated\n"}
    return [*plain, Package("pciutils", "3.9.0-4", lspci), *dkms(system)]


def dkms(system: str = "debian") -> list[Package]:
    """Return the DKMS package, from the distribution's archive or, on RPM hosts, from EPEL."""
    repository = "epel" if system == "rocky" else "archive"
    packages = package_graph.load(GRAPHS[system]).packages(repository)
    return [package for package in packages if package.name == "dkms"]


def fabric_tools(system: str) -> list[Package]:
    """Return the distribution's InfiniBand packages.

    The driver needs them on hosts whose NVSwitches are attached over InfiniBand.
    """
    repository = "base" if system == "rocky" else "archive"
    packages = package_graph.load(GRAPHS[system]).packages(repository)
    return [package for package in packages if package.name in ("infiniband-diags", "libibumad3")]


def headers_apt(release: str = KERNEL_APT) -> list[Package]:
    """Return the package with the files for building modules for a Debian kernel."""
    version = release.rsplit("-", 1)[0] + "-1"
    return [Package(f"linux-headers-{release}", version, contents.build_files(release))]


def headers_dnf(release: str = KERNEL_DNF, flavor: str = "kernel") -> list[Package]:
    """Return the packages with the files for building modules for an RPM kernel."""
    version = release.rsplit(".", 1)[0]
    return [
        Package(f"{flavor}-devel", version, contents.build_files(release)),
        Package(f"{flavor}-headers", version, {f"/usr/include/{flavor}-simulated.h": "\n"}),
    ]


def kernel_apt(release: str) -> list[Package]:
    """Return the packages of a Debian kernel: image, headers and metapackage.

    The metapackage `linux-image-amd64` depends on the image of the newest kernel.
    """
    version = release.rsplit("-", 1)[0] + "-1"
    image = {f"/boot/vmlinuz-{release}": "simulated kernel image\n"}
    name = f"linux-image-{release}"
    return [
        Package(name, version, image),
        Package("linux-image-amd64", version, depends=(name,)),
        *headers_apt(release),
    ]


def kernel_dnf(release: str, flavor: str = "kernel") -> list[Package]:
    """Return the packages of an RPM kernel, including the files for building modules.

    `flavor` is `kernel` for the distribution's kernel, or `kernel-lt` for the kernel of elrepo.
    """
    version = release.rsplit(".", 1)[0]
    image = {f"/boot/vmlinuz-{release}": "simulated kernel image\n"}
    return [Package(flavor, version, image), *headers_dnf(release, flavor)]


def driver(*versions: str, system: str = "debian") -> list[Package]:
    """Return the packages of NVIDIA's repository for a distribution, for these driver versions."""
    return package_graph.load(GRAPHS[system]).packages("cuda", versions)


def debians_driver() -> list[Package]:
    """Return the packages of NVIDIA's driver in Debian's own archive, under Debian's own names."""
    packages = package_graph.load(GRAPHS["debian"]).packages("archive")
    return [package for package in packages if not package.name.startswith(("dkms", "linux-"))]


def modules(*versions: str) -> str:
    """Return the text of `modules.yaml` in NVIDIA's dnf repository, for these driver versions."""
    return package_graph.load(GRAPHS["rocky"]).modules(versions)


def cuda(version: str) -> list[Package]:
    """Return the package of a CUDA toolkit version such as `12.8`."""
    nvcc = {f"/usr/local/cuda-{version}/bin/nvcc": f'#!/bin/sh\necho "{version} (simulated)"\n'}
    return [Package(f"cuda-toolkit-{version.replace('.', '-')}", f"{version}.1-1", nvcc)]


def kubernetes(*versions: str) -> list[Package]:
    """Return the packages of the Kubernetes apt or dnf repository for these versions."""
    return package_graph.load("kubernetes").packages("kubernetes", versions)


def containerd(root: Path) -> list[Package]:
    """Return Debian's containerd and runc packages, built from the installed files in `root`."""
    return [
        Package(
            "containerd", "1.6.20~ds1-1", _installed_files(root, "containerd"), depends=("runc",)
        ),
        Package("runc", "1.1.5+ds1-1", _installed_files(root, "runc")),
    ]


def containerd_io(root: Path) -> list[Package]:
    """Return Docker's package containerd.io, which contains runc and disables CRI by default.

    Source: docker/containerd-packaging 0e59ba5 debian/control, 6551934 common/containerd.toml.
    """
    files = {**_installed_files(root, "containerd"), **_installed_files(root, "runc")}
    files["/etc/containerd/config.toml"] = 'disabled_plugins = ["cri"]\n'
    replaced = ("containerd", "runc")
    package = Package("containerd.io", "1.6.20-1", files, provides=replaced, conflicts=replaced)
    return [package]


def _installed_files(root: Path, name: str) -> dict[str, str | Path]:
    """Return the programs, units and configuration files of an installed Debian package."""
    listed = (root / f"var/lib/dpkg/info/{name}.list").read_text().split()
    folders = ("/etc/", "/lib/systemd/", "/usr/bin/", "/usr/sbin/")
    return {
        f"/usr{path}" if path.startswith("/lib/") else path: root / path.lstrip("/")
        for path in listed
        if path.startswith(folders) and (root / path.lstrip("/")).is_file()
    }


def driver_runfile(version: str) -> bytes:
    """Return a self-extracting driver installer with options and errors of NVIDIA's installer."""
    files = _fake_files("driver", version) | contents.source(version, "proprietary")
    files = {path: text for path, text in files.items() if "/systemd/" not in path}
    head = (contents.TEXTS / "driver/installer").read_text().replace("@VERSION@", version)
    buffer = io.BytesIO()
    packed = gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0)
    with packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in sorted(files.items()):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(text.encode())
            entry.mode = 0o755 if "/bin/" in path else 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return head.encode() + b"__ARCHIVE__\n" + buffer.getvalue()


def cuda_runfile(version: str) -> bytes:
    """Return a CUDA toolkit installer with the options of NVIDIA's installer."""
    return (contents.TEXTS / "cuda/installer").read_text().replace("@VERSION@", version).encode()
