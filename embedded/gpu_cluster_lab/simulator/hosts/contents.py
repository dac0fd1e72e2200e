"""Files of simulated packages: fake programs, kernel modules and kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TEXTS = Path(__file__).with_name("fakes")
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "nvidia-smi": ("driver/usr/bin/nvidia-smi",),
    "nvidia-modprobe": ("driver/usr/bin/nvidia-modprobe",),
    "nvidia-persistenced": ("driver/usr/bin/nvidia-persistenced",),
    "persistenced-unit": ("driver/usr/lib/systemd/system/nvidia-persistenced.service",),
    "ubuntus-persistenced-unit": (
        "driver_ubuntu/usr/lib/systemd/system/nvidia-persistenced.service",
    ),
    "fabricmanager": (
        "fabricmanager/usr/bin/nv-fabricmanager",
        "fabricmanager/usr/lib/systemd/system/nvidia-fabricmanager.service",
    ),
    "nvlsm": ("nvlsm/usr/bin/nvlsm",),
    "imex": ("imex/usr/bin/nvidia-imex", "imex/usr/lib/systemd/system/nvidia-imex.service"),
    "dkms": ("dkms/usr/sbin/dkms",),
    "kubelet": ("kubernetes/usr/bin/kubelet", "kubernetes/usr/lib/systemd/system/kubelet.service"),
    "kubeadm": ("kubernetes/usr/bin/kubeadm",),
    "kubectl": ("kubernetes/usr/bin/kubectl",),
    "nvidia-ctk": (),  # There is no fake: tests install the real nvidia-ctk.
}
"""Files in `fakes/` by the program name that a package graph uses."""
DEBIANS_MODULES = ("nvidia-current", "nvidia-current-open", "nvidia-tesla-535")
"""Names of the NVIDIA kernel module in Debian's packages.

modprobe finds the module through an `install` line (modprobe.d(5)). On a real host the
configuration file is a link of the selected alternative; here it is a plain file.
"""


@dataclass(frozen=True)
class Held:
    """Contents of a simulated package.

    `files` has texts by their path on a host; `installed` and `removed` are the scripts that run
    after installation and before removal.
    """

    files: Mapping[str, str]
    installed: str = ""
    removed: str = ""


def texts(path: str, version: str) -> dict[str, str]:
    """Return the path on a host and the text of one file in `fakes/`, with `@VERSION@` replaced."""
    text = (TEXTS / path).read_text().replace("@VERSION@", version)
    return {f"/{path.partition('/')[2]}": text}


def of(holds: Sequence[str], module: str, built: str, words: Mapping[str, str]) -> Held:
    """Return the files and scripts of one simulated package.

    Args:
        holds: What the package contains: keys of `PROGRAMS`, `kernel` for a kernel image, or
            `headers` for the files to build modules.
        module: `open` or `proprietary` if DKMS builds that kind of kernel module; for Debian's
            module name, `open as nvidia-current-open`.
        built: `open` or `proprietary` if the package contains a prebuilt module for one kernel.
        words: Version, kernel and other values of this package.
    """
    files: dict[str, str] = {}
    for name in holds:
        if name == "kernel":
            files[f"/boot/vmlinuz-{words['kernel']}"] = "simulated kernel image\n"
        elif name == "headers":
            files |= build_files(words["kernel"])
        elif name in DEBIANS_MODULES:
            files["/etc/modprobe.d/nvidia.conf"] = (
                f"install nvidia modprobe -i {name} $CMDLINE_OPTS\n"
            )
        else:
            for path in PROGRAMS[name]:
                files |= texts(path, words["version"])
    if module:
        kind, _, called = module.partition(" as ")
        name = called or "nvidia"
        files |= source(words["version"], kind, name)
        build = 'dkms autoinstall -k "$(uname -r)" || true'
        return Held(files, build, f"dkms remove {name}/{words['version']} --all || true")
    if built:
        place = f"/usr/lib/modules/{words['kernel']}/kernel/nvidia-{words['branch']}/nvidia.ko"
        files[place] = module_text(words["version"], built)
    return Held(files)


def build_files(release: str) -> dict[str, str]:
    """Return the files that are needed to build modules for a kernel release."""
    return {f"/usr/lib/modules/{release}/build/Makefile": "# simulated by gpu-cluster\n"}


def source(version: str, kind: str, name: str = "nvidia") -> dict[str, str]:
    """Return the source files from which DKMS builds the NVIDIA kernel module."""
    license_ = "Dual MIT/GPL" if kind == "open" else "NVIDIA"
    lines = f"PACKAGE_NAME={name}\nPACKAGE_VERSION={version}\nLICENSE={license_}\n"
    # Source: NVIDIA/debian-packaging-nvidia-driver dbb36ab4, debian/nvidia-kernel-dkms.dkms.in.
    lines += "AUTOINSTALL=yes\n"
    return {f"/usr/src/{name}-{version}/dkms.conf": f"{lines}# simulated by gpu-cluster\n"}


def module_text(version: str, kind: str) -> str:
    """Return the content of a built kernel module, which the fake modinfo and modprobe read."""
    license_ = "Dual MIT/GPL" if kind == "open" else "NVIDIA"
    return f"version: {version}\nlicense: {license_}\nsimulated by gpu-cluster\n"
