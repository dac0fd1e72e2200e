"""Images of the GPU Operator and of the operands that the settings turn on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.charts.images import Section, UnknownImages, nfd_image, sections
from gpu_cluster.settings.gpu_operator import GpuOperatorSettings
from gpu_cluster.settings.hosts.driver import DriverSettings


def images(operator: GpuOperatorSettings, driver: DriverSettings) -> Iterator[str]:
    """Yield the images of the GPU Operator and of the operands that the settings turn on.

    Raises:
        UnknownImages: The images of the operator's version are not known.
    """
    for section, section_values in sections_in_use(operator, driver):
        if operator.version not in section.versions and "version" not in section_values:
            raise UnknownImages(
                f"gpuOperator.version: found {operator.version}; wanted: a version whose images "
                f"are known ({', '.join(section.versions)}); cure: take one of them"
            )
        repository = section_values.get("repository", section.repository)
        image, version = (
            section_values.get("image", section.image),
            section_values.get("version", section.versions.get(operator.version, "")),
        )
        if section.path == "driver":
            yield _driver_image(driver, version)
        else:
            yield f"{repository}/{image}:{version}"
    if operator.nfd:
        yield nfd_image(operator.version)


def sections_in_use(
    operator: GpuOperatorSettings, driver: DriverSettings
) -> Iterator[tuple[Section, Mapping[str, Any]]]:
    """Yield the chart's sections whose images are used, with their values in `extraValues`."""
    on = _section_switches(operator, driver.managed_by_operator)
    for section in sections():
        section_values: Mapping[str, Any] = operator.extra_values
        for step in section.path.split("."):
            section_values = section_values.get(step) or {}
        if section_values.get("enabled", on.get(section.path, False)):
            yield section, section_values


def _driver_image(driver: DriverSettings, version: str) -> str:
    """Return the driver's image name.

    The operator appends each node's operating system to the tag, and for precompiled drivers also
    the node's kernel.
    """
    repository = driver.image_repository or "nvcr.io/nvidia"
    if driver.digest:
        return f"{repository}/{driver.image or 'driver'}@{driver.digest}"
    tag = driver.version or version
    system = "<kernel>-<os>" if driver.precompiled else "<os>"
    return (
        f"{repository}/{driver.image or 'driver'}:{tag}-{system} "
        f"one for each {'kernel and ' if driver.precompiled else ''}OS of the nodes,"
        f" such as {tag}-{'6.8.0-31-generic-' if driver.precompiled else ''}ubuntu24.04"
    )


def _section_switches(operator: GpuOperatorSettings, driver: bool) -> dict[str, bool]:
    """Return, for each section of the chart, whether its image is used with these settings."""
    always = ("operator", "validator", "devicePlugin", "gfd", "dcgmExporter", "migManager")
    sandbox = operator.sandbox is not None
    mode = operator.sandbox.mode.value if operator.sandbox else ""
    return {
        **dict.fromkeys(always, True),
        "driver": driver,
        "driver.manager": driver,
        "toolkit": operator.toolkit,
        "vgpuDeviceManager": sandbox,
        "vfioManager": sandbox,
        "vfioManager.driverManager": sandbox,
        "sandboxDevicePlugin": sandbox and mode == "kubevirt",
        "kataSandboxDevicePlugin": sandbox and mode == "kata",
        "ccManager": sandbox and mode == "kata",
    }
