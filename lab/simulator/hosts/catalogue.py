"""What the simulated repositories hold: stand-ins for real packages and installers, by their names.

The texts are in ``stand_ins/``; each says that it is simulated when it is asked. ``@VERSION@`` in
them is the package's version.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from lab.simulator.hosts.packages import Package

TEXTS = Path(__file__).with_name("stand_ins")
KERNEL_APT = "6.1.0-40-amd64"
"""The kernel that a simulated Debian host runs: fixtures/boot."""
KERNEL_DNF = "5.14.0-570.12.1.el9_6.x86_64"
"""The kernel that a simulated RPM host runs: fixtures_rpm/boot."""
_RUNFILE_ONLY = "usr/bin/nvidia-uninstall"


def _texts(folder: str, version: str) -> dict[str, str]:
    """The files below ``stand_ins/<folder>/usr``, by their path on a host."""
    base = TEXTS / folder
    return {
        f"/{path.relative_to(base)}": path.read_text().replace("@VERSION@", version)
        for path in sorted((base / "usr").rglob("*"))
        if path.is_file()
    }


def build_tools() -> list[Package]:
    """What builds modules. The headers are of the kernels that simulated hosts run."""
    plain = [
        Package(name, version, {f"/usr/bin/{name}": f'#!/bin/sh\necho "{name} (simulated)"\n'})
        for name, version in (("gcc", "12.2.0-3"), ("make", "4.3-4"))
    ]
    lspci = {"/usr/bin/lspci": "#!/bin/sh\necho simulated\n"}
    return [
        *plain,
        Package("pciutils", "3.9.0-4", lspci),
        Package("dkms", "3.1.8-1", _texts("dkms", "3.1.8")),
    ]


def headers_apt(release: str = KERNEL_APT) -> list[Package]:
    """The build files of a Debian kernel."""
    version = release.rsplit("-", 1)[0] + "-1"
    return [Package(f"linux-headers-{release}", version, _build_files(release))]


def headers_dnf(release: str = KERNEL_DNF, flavor: str = "kernel") -> list[Package]:
    """The build files of an RPM kernel."""
    version = release.rsplit(".", 1)[0]
    return [
        Package(f"{flavor}-devel", version, _build_files(release)),
        Package(f"{flavor}-headers", version, {f"/usr/include/{flavor}-simulated.h": "\n"}),
    ]


def _build_files(release: str) -> dict[str, str]:
    return {f"/usr/lib/modules/{release}/build/Makefile": "# simulated by gpu-cluster\n"}


def kernel_apt(release: str) -> list[Package]:
    """A Debian kernel, its headers, and the name for "the newest kernel" that asks for it."""
    version = release.rsplit("-", 1)[0] + "-1"
    image = {f"/boot/vmlinuz-{release}": "simulated kernel image\n"}
    name = f"linux-image-{release}"
    return [
        Package(name, version, image),
        Package("linux-image-amd64", version, depends=(name,)),
        *headers_apt(release),
    ]


def kernel_dnf(release: str, flavor: str = "kernel") -> list[Package]:
    """An RPM kernel of the distribution, or elrepo's ``kernel-lt``, with its build files."""
    version = release.rsplit(".", 1)[0]
    image = {f"/boot/vmlinuz-{release}": "simulated kernel image\n"}
    return [Package(flavor, version, image), *headers_dnf(release, flavor)]


def driver(version: str) -> list[Package]:
    """NVIDIA's driver: the name that is asked for, and what it brings."""
    files = _texts("driver", version)
    files.pop(f"/{_RUNFILE_ONLY}")
    files |= _source(version)
    full = f"{version}-1"
    return [
        Package(
            "nvidia-driver",
            full,
            files,
            installed='dkms autoinstall -k "$(uname -r)"',
            removed="dkms remove nvidia --all || true",
        ),
        Package("nvidia-open", full, depends=(f"nvidia-driver = {full}",)),
        Package("cuda-drivers", full, depends=(f"nvidia-driver = {full}",)),
        Package("nvidia-fabricmanager", full, _texts("fabricmanager", version)),
    ]


def _source(version: str) -> dict[str, str]:
    lines = f"PACKAGE_NAME=nvidia\nPACKAGE_VERSION={version}\n# simulated by gpu-cluster\n"
    return {f"/usr/src/nvidia-{version}/dkms.conf": lines}


def cuda(version: str) -> list[Package]:
    """A CUDA toolkit as packages have it, such as ``12.8``."""
    nvcc = {f"/usr/local/cuda-{version}/bin/nvcc": f'#!/bin/sh\necho "{version} (simulated)"\n'}
    return [Package(f"cuda-toolkit-{version.replace('.', '-')}", f"{version}.1-1", nvcc)]


def kubernetes(version: str, release: str = "1.1") -> list[Package]:
    """kubelet with its unit, kubeadm, kubectl, each a package, as pkgs.k8s.io names them."""
    texts = _texts("kubernetes", version)
    unit = "/usr/lib/systemd/system/kubelet.service"
    found = []
    for name in ("kubelet", "kubeadm", "kubectl"):
        files = {f"/usr/bin/{name}": texts[f"/usr/bin/{name}"]}
        if name == "kubelet":
            files[unit] = texts[unit]
        found.append(Package(name, f"{version}-{release}", files))
    return found


def driver_runfile(version: str) -> bytes:
    """A self-extracting driver installer with the options and refusals of NVIDIA's own."""
    files = _texts("driver", version) | _source(version)
    files = {path: text for path, text in files.items() if "/systemd/" not in path}
    head = (TEXTS / "driver/installer").read_text().replace("@VERSION@", version)
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
    """A CUDA toolkit installer with the options of NVIDIA's own."""
    return (TEXTS / "cuda/installer").read_text().replace("@VERSION@", version).encode()
