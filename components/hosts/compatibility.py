"""Which CUDA, driver and kernel go together: tables with their sources, and pure functions."""

from __future__ import annotations

import re

Version = tuple[int, ...]

CUDA_DRIVER: dict[int, Version] = {
    11: (450, 80, 2),
    12: (525, 60, 13),
    13: (580, 65, 6),
}
"""The oldest driver that runs programs of a CUDA major version, by minor version compatibility:
NVIDIA, "CUDA Compatibility", table 1 (>= 450, >= 525, >= 580); the full numbers are those of
"CUDA Toolkit 13.1 Release Notes", table "Minimum Required Driver Version for CUDA Minor Version
Compatibility". A newer driver runs programs of every older major version."""

CUDA_DRIVER_OF: dict[Version, Version] = {(11, 0): (450, 51, 6)}
"""Versions before minor version compatibility began, with the driver that NVIDIA ships beside them:
11.0 in ``cuda_11.0.3_450.51.06_linux.run``; the floor above is that of 11.1 and later."""

DRIVER_KERNEL: tuple[tuple[Version, Version, Version, str], ...] = (
    ((390,), (391,), (6, 5), "NVIDIA/open-gpu-kernel-modules issue 558"),
    ((470,), (470, 103, 2), (5, 18), "Debian nvidia-driver 470.103.01: tested up to Linux 5.17"),
    ((530,), (530, 41, 4), (6, 4), "NVIDIA/open-gpu-kernel-modules issue 501"),
    ((575,), (575, 51, 3), (6, 15), "Frogging-Family/nvidia-all issue 293"),
)
"""Drivers from the first version up to, without, the second, whose module does not build for the
third, a kernel, nor for later ones; and where that was seen. NVIDIA publishes no such table, so
this holds known failures only, and says nothing of other pairs."""

DRIVER_KERNEL_LEAST: tuple[tuple[Version, Version, str], ...] = (
    ((0,), (3, 10), "NVIDIA driver 550.54.14 README, chapter 2"),
    ((580,), (4, 15), "NVIDIA/open-gpu-kernel-modules 580.105.08 README"),
)
"""From a driver on, the oldest kernel that it supports."""


def version(text: str) -> Version:
    """The leading numbers of a version: ``6.1.0-18-amd64`` is (6, 1, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def shown(numbers: Version) -> str:
    """A version as it is written; driver versions have two digits in their last part."""
    return ".".join(str(number) if n < 2 else f"{number:02}" for n, number in enumerate(numbers))


def cuda_of(image: str) -> str:
    """The CUDA version in the tag of an image such as ``vectoradd-cuda12.5.0``; empty without."""
    match = re.search(r"cuda-?:?(\d+\.\d+(\.\d+)?)", image)
    return match[1] if match else ""


def driver_for(cuda: str) -> Version:
    """The oldest driver for a CUDA version; empty where the table has none."""
    major = version(cuda)[:1]
    if version(cuda)[:2] in CUDA_DRIVER_OF:
        return CUDA_DRIVER_OF[version(cuda)[:2]]
    return CUDA_DRIVER.get(major[0], ()) if major else ()


def runs(cuda: str, driver: str) -> bool:
    """Whether a driver runs programs of a CUDA version; also where the table does not know it."""
    return not driver_for(cuda) or version(driver) >= driver_for(cuda)


def kernel_refused(driver: str, kernel: str) -> str:
    """Why a driver's module does not build for a kernel; empty where nothing speaks against it."""
    have, running = version(driver), version(kernel)
    for first, end, since, source in DRIVER_KERNEL:
        if first <= have < end and running >= since:
            return f"known not to build since Linux {shown(since)} ({source})"
    for since, least, source in DRIVER_KERNEL_LEAST:
        if have >= since and running and running < least:
            return f"needs Linux {shown(least)} ({source})"
    return ""
