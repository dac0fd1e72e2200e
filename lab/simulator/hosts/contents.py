"""What a simulated package holds on a host: fakes of programs, modules, kernels."""

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
    "nvidia-ctk": (),  # the tests bring the real one
}
"""Files of ``fakes/`` by what a row of a graph calls them."""
DEBIANS_MODULES = ("nvidia-current", "nvidia-current-open", "nvidia-tesla-535")
"""What Debian's packages call the module; modprobe finds it by `install` (modprobe.d(5)). On a host
it is the chosen alternative's link, here a file.
"""


@dataclass(frozen=True)
class Held:
    """Files by their path on a host, and what runs when the package comes and goes."""

    files: Mapping[str, str]
    installed: str = ""
    removed: str = ""


def texts(path: str, version: str) -> dict[str, str]:
    """One file of ``fakes/`` by its path on a host; ``@VERSION@`` in it is the version."""
    text = (TEXTS / path).read_text().replace("@VERSION@", version)
    return {f"/{path.partition('/')[2]}": text}


def of(holds: Sequence[str], module: str, built: str, words: Mapping[str, str]) -> Held:
    """What one package holds.

    Args:
        holds: keys of `PROGRAMS`, ``kernel`` (an image) or ``headers`` (its build files).
        module: ``open`` or ``proprietary``, where DKMS builds that kind of module; Debian has it
            under another name (``open as nvidia-current-open``).
        built: the same, where the module for one kernel is in the package.
        words: version, kernel and so on of this package.
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
    """What modules of that kernel are built with."""
    return {f"/usr/lib/modules/{release}/build/Makefile": "# simulated by gpu-cluster\n"}


def source(version: str, kind: str, name: str = "nvidia") -> dict[str, str]:
    """The module's source as DKMS takes it."""
    license_ = "Dual MIT/GPL" if kind == "open" else "NVIDIA"
    lines = f"PACKAGE_NAME={name}\nPACKAGE_VERSION={version}\nLICENSE={license_}\n"
    # NVIDIA/debian-packaging-nvidia-driver dbb36ab4, debian/nvidia-kernel-dkms.dkms.in.
    lines += "AUTOINSTALL=yes\n"
    return {f"/usr/src/{name}-{version}/dkms.conf": f"{lines}# simulated by gpu-cluster\n"}


def module_text(version: str, kind: str) -> str:
    """A built module, as the simulated modinfo and modprobe read it."""
    license_ = "Dual MIT/GPL" if kind == "open" else "NVIDIA"
    return f"version: {version}\nlicense: {license_}\nsimulated by gpu-cluster\n"
