"""Images of charts, by their versions: facts, and which of them the GPU Operator runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from components.charts.digests import facts
from components.charts.value_table import series_of
from components.settings.cluster import Cluster

#: Holds a driver installer's pod when the driver is loaded.
PAUSE = "registry.k8s.io/pause:3.10"
NFD = "registry.k8s.io/nfd/node-feature-discovery"
#: What NFD's chart brings under ``crds/`` (0.17.3 to 0.19.0).
NFD_DEFINITIONS = (
    "nodefeaturegroups.nfd.k8s-sigs.io",
    "nodefeaturerules.nfd.k8s-sigs.io",
    "nodefeatures.nfd.k8s-sigs.io",
)


@dataclass(frozen=True)
class Section:
    """One section of the operator's values with an image of its own."""

    path: str
    repository: str
    image: str
    secrets: bool
    versions: Mapping[str, str]


class UnknownImages(Exception):
    """A chart version of which no list of images is known."""


@cache
def sections() -> tuple[Section, ...]:
    """The sections of the operator's values that name an image."""
    return tuple(
        Section(**{"path": path, "secrets": True, **fact})
        for path, fact in facts()["operator"].items()
    )


def nfd_image(version: str) -> str:
    """Node Feature Discovery's image in a version of the device plugin's or operator's chart."""
    return f"{NFD}:{facts()['nfd'][series_of(version)]}"


def operator_images(cluster: Cluster) -> Iterator[str]:
    """Images of the GPU Operator and of the operands that a configuration turns on.

    Raises:
        UnknownImages: the operator's version is none of those whose images are known.
    """
    operator = cluster.gpu_operator
    for section, given in sections_in_use(cluster):
        if operator.version not in section.versions and "version" not in given:
            raise UnknownImages(
                f"gpuOperator.version: found {operator.version}; wanted: a version whose images "
                f"are known ({', '.join(section.versions)}); cure: take one of them"
            )
        repository = given.get("repository", section.repository)
        image, version = (
            given.get("image", section.image),
            given.get("version", section.versions.get(operator.version, "")),
        )
        if section.path == "driver":
            yield _driver(cluster, version)
        else:
            yield f"{repository}/{image}:{version}"
    if operator.nfd:
        yield nfd_image(operator.version)


def sections_in_use(cluster: Cluster) -> Iterator[tuple[Section, Mapping[str, Any]]]:
    """Sections whose images run, each with what `extraValues` gives of it."""
    on = _switches(cluster)
    for section in sections():
        given: Mapping[str, Any] = cluster.gpu_operator.extra_values
        for step in section.path.split("."):
            given = given.get(step) or {}
        if given.get("enabled", on.get(section.path, False)):
            yield section, given


def _driver(cluster: Cluster, version: str) -> str:
    """The driver's image: the operator adds each node's OS to the tag, precompiled its kernel."""
    driver = cluster.driver
    repository = driver.image_repository or "nvcr.io/nvidia"
    if driver.digest:
        return f"{repository}/{driver.image or 'driver'}@{driver.digest}"
    tag = driver.version or version
    rest = "<kernel>-<os>" if driver.precompiled else "<os>"
    return (
        f"{repository}/{driver.image or 'driver'}:{tag}-{rest} "
        f"one for each {'kernel and ' if driver.precompiled else ''}OS of the nodes,"
        f" such as {tag}-{'6.8.0-31-generic-' if driver.precompiled else ''}ubuntu24.04"
    )


def _switches(cluster: Cluster) -> dict[str, bool]:
    """Which sections' images run, by the chart's defaults and our settings."""
    operator, driver = cluster.gpu_operator, cluster.driver.managed_by_operator
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
