"""Compatible versions of CUDA, driver and kernel: tables with their sources, pure functions."""

from __future__ import annotations

import re

Version = tuple[int, ...]

CUDA_DRIVER: dict[int, Version] = {
    11: (450, 80, 2),
    12: (525, 60, 13),
    13: (580, 65, 6),
}
"""Oldest driver for each CUDA major version, by minor version compatibility.

Sources: NVIDIA, "CUDA Compatibility", table 1 (>= 450, >= 525, >= 580); the full numbers are from
"CUDA Toolkit 13.1 Release Notes", table "Minimum Required Driver Version for CUDA Minor Version
Compatibility". A newer driver also runs programs of every older CUDA major version.
"""

CUDA_DRIVER_OF: dict[Version, Version] = {
    (11, 0): (450, 51, 6),
    (10, 2): (440, 33),
    (10, 1): (418, 39),
    (10, 0): (410, 48),
    (9, 2): (396, 26),
    (9, 1): (390, 46),
    (9, 0): (384, 81),
    (8, 0): (375, 26),
}
"""Minimum driver of each CUDA version that lacks minor version compatibility.

NVIDIA ships that driver with CUDA: `cuda_11.0.3_450.51.06_linux.run` contains 11.0. The floor in
`CUDA_DRIVER` applies to 11.1 and later. Source of the older rows: CUDA Toolkit 11.0 Release Notes,
table 2, "CUDA Toolkit and Compatible Driver Versions"; "CUDA Compatibility", table 2, repeats 10.x.
"""

OLDEST_KERNEL: Version = (4, 18)
"""Oldest kernel of hosts: that of RHEL 8, the oldest system that the scripts support."""

VGPU_BRANCH: dict[int, int] = {16: 535, 17: 550, 18: 570, 19: 580}
"""Driver branch of each release of NVIDIA's vGPU software.

Source: Google Cloud documentation, "NVIDIA driver versions for RTX Virtual Workstations", which
lists the guest drivers of each release (such as 580.65.06 of 19.0).
"""

DRIVER_KERNEL: tuple[tuple[Version, Version, Version, str], ...] = (
    ((390,), (391,), (6, 5), "NVIDIA/open-gpu-kernel-modules issue 558"),
    ((390,), (390, 138), (5, 5), "void-linux/void-packages issue 19301"),
    ((418,), (418, 57), (5, 0), "negativo17/nvidia-driver issue 76"),
    ((440,), (440, 59), (5, 5), "gentoo, nvidia-drivers-440.44.ebuild: kernels before 5.5"),
    ((440,), (440, 82), (5, 6), "void-linux/void-packages issue 20505"),
    ((455,), (455, 45), (5, 10), "NixOS/nixpkgs pull request 120655"),
    ((455,), (460, 67), (5, 11), "NixOS/nixpkgs pull request 120655"),
    ((470,), (470, 103, 2), (5, 18), "Debian nvidia-driver 470.103.01: tested up to Linux 5.17"),
    ((530,), (530, 41, 4), (6, 4), "NVIDIA/open-gpu-kernel-modules issue 501"),
    ((565,), (565, 57, 2), (6, 12), "gentoo, nvidia-drivers-565.57.01-kernel-6.12.patch"),
    ((570,), (570, 153, 3), (6, 15), "gentoo, nvidia-drivers-570.153.02-kernel-6.15.patch"),
    ((575,), (575, 51, 3), (6, 15), "Frogging-Family/nvidia-all issue 293"),
    ((580,), (580, 95, 6), (6, 18), "gentoo, kernel-module-source-580.95.05-kernel6.18.patch"),
    ((580,), (580, 126, 10), (6, 19), "gentoo, kernel-module-source-580.126.09-kernel6.19.patch"),
    ((590,), (590, 48, 2), (6, 19), "gentoo, kernel-module-source-590.48.01-kernel6.19.patch"),
)
"""Driver versions whose kernel module does not build for a kernel and later kernels.

Each row has the first driver version, the first later version that may be fixed, the first kernel
that fails, and the source. A version in a source's title is the last driver version that is known
to fail. NVIDIA publishes no such table, so these are known failures only; the table proves nothing
about other pairs.
"""

DRIVER_KERNEL_LEAST: tuple[tuple[Version, Version, str], ...] = (
    ((0,), (3, 10), "NVIDIA driver 550.54.14 README, chapter 2"),
    ((580,), (4, 15), "NVIDIA/open-gpu-kernel-modules 580.105.08 README"),
)
"""Oldest kernel that a driver supports: first driver version, oldest kernel, source."""


def version(text: str) -> Version:
    """Return the leading numbers of a version: `6.1.0-18-amd64` is (6, 1, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def shown(numbers: Version) -> str:
    """Return a version as text; the third number has two digits, as in driver versions."""
    return ".".join(str(number) if n < 2 else f"{number:02}" for n, number in enumerate(numbers))


def cuda_of(image: str) -> str:
    """Return the CUDA version in an image's tag, such as `vectoradd-cuda12.5.0`; empty if none."""
    match = re.search(r"cuda-?:?(\d+\.\d+(\.\d+)?)", image)
    return match[1] if match else ""


def driver_for(cuda: str) -> Version:
    """Return the oldest driver for a CUDA version; empty if the tables have no entry."""
    major = version(cuda)[:1]
    if version(cuda)[:2] in CUDA_DRIVER_OF:
        return CUDA_DRIVER_OF[version(cuda)[:2]]
    return CUDA_DRIVER.get(major[0], ()) if major else ()


def runs(cuda: str, driver: str) -> bool:
    """Return whether a driver runs programs of a CUDA version; true if the tables have no entry."""
    return not driver_for(cuda) or version(driver) >= driver_for(cuda)


def vgpu_branch(release: str) -> int | None:
    """Return the driver branch of a vGPU release such as `16.4`; None if it is not in the table."""
    return VGPU_BRANCH.get((*version(release), 0)[0])


def kernel_refused(driver: str, kernel: str) -> str:
    """Return why a driver's module does not build for a kernel; empty if no problem is known."""
    have, running = version(driver), version(kernel)
    for first, end, since, source in DRIVER_KERNEL:
        if first <= have < end and running >= since:
            return f"known not to build since Linux {shown(since)} ({source})"
    for since, least, source in DRIVER_KERNEL_LEAST:
        if have >= since and running and running < least:
            return f"needs Linux {shown(least)} ({source})"
    return ""
