"""Find declared versions that don't work together. No host and no cluster is needed for that.

Hosts and nodes are checked with the versions that they report in `gpu_cluster.hosts.steps` and
`gpu_cluster.inspection.misfits`, by the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.base.compatibility import (
    OLDEST_KERNEL,
    cuda_of,
    driver_for,
    kernel_refused,
    runs,
    shown,
    version,
    vgpu_branch,
)
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.gpu_operator import GpuOperatorSettings
from gpu_cluster.settings.hosts.cuda import CudaSettings
from gpu_cluster.settings.hosts.kernel import KernelSettings
from gpu_cluster.settings.valid_sections import Level, ValidSections
from gpu_cluster.settings.validation import ValidationSettings
from gpu_rules.facts.parts import operator_part
from gpu_rules.faults import Fault, Location, fault, show

_NEWEST = ".999.99"
"""Suffix for a driver branch, such as `580`, so that it compares as the branch's newest driver."""


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield a fault for each pair of declared versions that is known not to work together."""
    for level in sections.levels:
        yield from _check_kernel(level)
    for level in sections.gpu_levels:
        place, driver = _driver_of(level, sections)
        if driver:
            yield from _check_cuda(level, place, driver)
            yield from _check_images(sections, place, driver)
            yield from _check_build(level, place, driver)
    yield from _check_vgpu(sections)


def _driver_of(level: Level, sections: ValidSections) -> tuple[Location, str]:
    """Return the version of a level's driver and the setting that declares it; empty if none.

    A container of the GPU Operator has the chart's version if none is declared.
    """
    driver = level.driver
    if driver is None:
        return (), ""
    operator = sections.section(GpuOperatorSettings)
    if driver.managed_by_operator and not driver.version:
        if operator is None:
            return (), ""
        return ("gpuOperator", "version"), operator_part(operator.version, "driver")
    installer, pool = sections.section(DriverInstallerSettings), level.pool
    if driver.managed_by_daemonset and installer is not None and pool is not None:
        text = installer.version_of(pool.name, driver.version) or ""
        if text != driver.version:
            return ("driverInstaller", "pools", pool.name, "version"), text
    text = driver.version or ""
    return level.place("driver", "version"), text


def _check_kernel(level: Level) -> Iterator[Fault]:
    kernel = level.section("kernel")
    release = kernel.release if isinstance(kernel, KernelSettings) else None
    if release and version(release) < OLDEST_KERNEL:
        yield fault(
            level.place("kernel", "release"),
            f"kernel {show(release)}",
            f"{shown(OLDEST_KERNEL)} or later",
            "declare a later kernel",
        )


def _check_cuda(level: Level, place: Location, driver: str) -> Iterator[Fault]:
    cuda = level.section("cuda")
    if isinstance(cuda, CudaSettings) and cuda.version:
        yield from _too_old(place, driver, cuda.version, "cuda.version")


def _check_images(sections: ValidSections, place: Location, driver: str) -> Iterator[Fault]:
    """Yield a fault if the driver can't run the CUDA programs of the validation's images."""
    validation = sections.section(ValidationSettings)
    if validation is None:
        return
    yield from _too_old(place, driver, cuda_of(validation.image), "validation.image")
    for name, test in validation.tests.items():
        yield from _too_old(place, driver, cuda_of(test.image), f"validation.tests.{name}.image")


def _too_old(place: Location, driver: str, cuda: str, setting: str) -> Iterator[Fault]:
    full = driver if len(version(driver)) > 1 else f"{driver}{_NEWEST}"
    if not runs(cuda, full):
        yield fault(
            place,
            f"driver {driver} for CUDA {cuda} of {setting}",
            f"{shown(driver_for(cuda))} or later",
            f"declare that driver, or an older CUDA in {setting}",
        )


def _check_build(level: Level, place: Location, driver: str) -> Iterator[Fault]:
    kernel = level.section("kernel")
    release = kernel.release if isinstance(kernel, KernelSettings) else None
    if release and (refusal := kernel_refused(driver, release)):
        yield fault(
            place,
            f"driver {driver} on kernel {release}, {refusal}",
            "a pair that builds",
            "declare another driver.version, or another kernel.release",
        )


def _check_vgpu(sections: ValidSections) -> Iterator[Fault]:
    """Yield a fault for guests with a newer driver branch than the hypervisors' vGPU Manager.

    Source: NVIDIA Virtual GPU Software release notes, "Compatibility Requirements for the NVIDIA
    vGPU Manager and Guest VM Driver".
    """
    operator = sections.section(GpuOperatorSettings)
    if operator is None or operator.vgpu is None:
        return
    release = operator.vgpu.host_driver
    branch = vgpu_branch(release)
    for level in sections.gpu_levels:
        guest = (level.driver and level.driver.version) or ""
        guest_branch = version(guest)[:1]
        if branch and guest_branch and guest_branch[0] > branch:
            yield fault(
                ("gpuOperator", "vgpu", "hostDriver"),
                f"{release} (branch {branch}), with driver {guest} in the guests",
                "a vGPU Manager of the guests' branch or of a later one: the vGPU doesn't load "
                "otherwise",
                f"upgrade the hypervisors, or declare a driver of branch {branch} or older",
            )
