"""Which images and charts a configuration needs, and where they are taken from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from components.charts.source import location
from components.charts.value_table import series_of
from components.platforms.device_plugin.settings import Presence
from components.platforms.settings import Platform
from components.settings.cluster import Cluster

#: Image of the chart nvidia-dra-driver-gpu (25.12.0, values.yaml).
DRA = "nvcr.io/nvidia/k8s-dra-driver-gpu"
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
class Image:
    """One image. `name`: where it is taken from; `upstream`: where its maker publishes it.

    `digest`: empty where it is not known. `note`: what the name leaves open.
    """

    name: str
    upstream: str
    digest: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """One chart: its name, version, and where it is taken from."""

    name: str
    version: str
    source: str


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
def _facts() -> dict[str, Any]:
    facts: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("images.yaml").read_text())
    return facts


@cache
def sections() -> tuple[Section, ...]:
    """The sections of the operator's values that name an image."""
    return tuple(
        Section(**{"path": path, "secrets": True, **each})
        for path, each in _facts()["operator"].items()
    )


def needed(cluster: Cluster) -> tuple[Image, ...]:
    """Every image, once, in the order in which they are first needed.

    Raises:
        UnknownImages: the operator's version is none of those whose images are known.
    """
    found = dict.fromkeys((*_platform(cluster), *_beside(cluster), cluster.validation.image))
    return tuple(_image(cluster, upstream) for upstream in found)


def charts(cluster: Cluster) -> tuple[Chart, ...]:
    """The charts of the platform; none where the project's own is used."""
    match cluster.platform:
        case Platform.GPU_MANAGER:
            return ()
        case Platform.GPU_OPERATOR:
            name, version = "gpu-operator", cluster.gpu_operator.version
        case Platform.DRA:
            name, version = "nvidia-dra-driver-gpu", cluster.dra.version
        case Platform.DEVICE_PLUGIN:
            name, version = "nvidia-device-plugin", cluster.device_plugin.version
    return (Chart(name, version, location(cluster.charts, name)),)


def _image(cluster: Cluster, upstream: str) -> Image:
    own = cluster.driver.image_repository is not None and upstream.startswith(
        cluster.driver.image_repository
    )
    name = upstream if own else cluster.registry.rewritten(upstream)
    reference, _, note = upstream.partition(" ")
    return Image(name.partition(" ")[0], reference, _facts()["digests"].get(reference, ""), note)


def _platform(cluster: Cluster) -> Iterator[str]:
    match cluster.platform:
        case Platform.GPU_OPERATOR:
            yield from _operator(cluster)
        case Platform.GPU_MANAGER:
            yield cluster.gpu_manager.image
            yield cluster.gpu_manager.admission_image
        case Platform.DRA:
            yield f"{DRA}:v{cluster.dra.version}"
        case Platform.DEVICE_PLUGIN:
            plugin = cluster.device_plugin
            yield f"nvcr.io/nvidia/k8s-device-plugin:v{plugin.version}"
            if plugin.presence is Presence.NFD:
                yield f"{NFD}:{_facts()['nfd'][series_of(plugin.version)]}"


def _beside(cluster: Cluster) -> Iterator[str]:
    """Images of what stands beside the platform: the driver's installers, the exporter."""
    if cluster.driver.managed_by_daemonset:
        installer = cluster.driver_installer
        yield from (installer.image_of(pool.name) for pool in cluster.pools if pool.gpus_per_node)
        yield PAUSE
    if cluster.monitoring and cluster.platform is not Platform.GPU_OPERATOR:
        yield cluster.monitoring.exporter_image


def _operator(cluster: Cluster) -> Iterator[str]:
    operator, extra = cluster.gpu_operator, cluster.gpu_operator.extra_values
    on = _switches(cluster)
    for section in sections():
        given: Mapping[str, Any] = extra
        for step in section.path.split("."):
            given = given.get(step) or {}
        if not given.get("enabled", on.get(section.path, False)):
            continue
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
        yield f"{NFD}:{_facts()['nfd'][series_of(operator.version)]}"


def _driver(cluster: Cluster, version: str) -> str:
    """The driver's image: the operator adds each node's OS to the tag, precompiled its kernel."""
    driver = cluster.driver
    repository = driver.image_repository or "nvcr.io/nvidia"
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
