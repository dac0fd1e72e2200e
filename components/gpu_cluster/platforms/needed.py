"""Images and charts that a stack needs, and where they are fetched from."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_cluster.charts.digests import chart_digest, digest
from gpu_cluster.charts.images import PAUSE, UnknownImages
from gpu_cluster.platforms.base import Platform
from gpu_cluster.platforms.site import Site
from gpu_cluster.settings.chart_source import ChartSource, is_own
from gpu_cluster.settings.charts import ChartsSettings
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.monitoring import MonitoringSettings
from gpu_cluster.settings.validation import ValidationSettings


@dataclass(frozen=True)
class Image:
    """One container image.

    Attributes:
        name: Name under which nodes pull the image.
        upstream: Name under which the vendor publishes the image.
        digest: Known digest of the image; empty if it is unknown.
        note: Explanation of placeholders in the name.
    """

    name: str
    upstream: str
    digest: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """One Helm chart.

    Attributes:
        name: Name of the chart.
        source: Location that the stack fetches the chart from.
        upstream: Chart repository of the vendor.
        digest: SHA-256 of the archive in `upstream`; empty if it is unknown.
    """

    name: str
    version: str
    source: str
    upstream: str
    digest: str = ""


def images(
    platform: Platform,
    validation: ValidationSettings,
    installer: DriverInstallerSettings | None,
    monitoring: MonitoringSettings | None,
) -> tuple[Image, ...]:
    """Return the images that a stack needs, without duplicates, in the order of first use.

    Raises:
        UnknownImages: The images of the chart's version are not known.
    """
    # The images of an adopted release depend on the release's values.
    upstream = [] if platform.installation.is_adopted else [*platform.images()]
    if installer is not None:
        pools = [pool for pool in platform.site.gpu_pools if pool.driver.managed_by_daemonset]
        upstream += [*(installer.image_of(pool.name) for pool in pools), PAUSE]
    upstream += [test.image for test in validation.tests.values()]
    if monitoring and platform.monitored.exporter is None:
        upstream.append(monitoring.exporter_image)
    upstream.append(validation.image)
    return tuple(_needed_image(platform.site, image) for image in dict.fromkeys(upstream))


def registries(
    platform: Platform,
    validation: ValidationSettings,
    installer: DriverInstallerSettings | None,
    monitoring: MonitoringSettings | None,
) -> tuple[str, ...]:
    """Return the `host:port` of each image registry; empty if the chart's images are unknown.

    Image names without a host belong to Docker Hub (distribution/reference, normalize.go), whose
    registry has the host name registry-1.docker.io.
    """
    try:
        names = [image.name for image in images(platform, validation, installer, monitoring)]
    except UnknownImages:
        return ()
    hosts = dict.fromkeys(map(_registry_of, names))
    return tuple(host if ":" in host else f"{host}:443" for host in hosts)


def _registry_of(name: str) -> str:
    first, slash, _ = name.partition("/")
    has_registry = slash and ("." in first or ":" in first or first == "localhost")
    return first if has_registry and first != "docker.io" else "registry-1.docker.io"


def charts(platform: Platform, settings: ChartsSettings) -> tuple[Chart, ...]:
    """Return the charts of the platform; empty if its chart belongs to this project."""
    if is_own(platform.repository) or platform.installation.release is None:
        return ()
    name, version = platform.chart, platform.installation.version
    source = ChartSource(settings, name, platform.repository, version)
    # For a registry, `charts.digests` has the manifest's digest, which differs from the archive's.
    by_registry = settings.oci or (
        platform.repository.startswith("oci://") and not settings.directory
    )
    declared = "" if by_registry else settings.digests.get(name, "")
    archive = declared or chart_digest(name, version)
    return (Chart(name, version, source.location, platform.repository, archive),)


def _needed_image(site: Site, upstream: str) -> Image:
    private = site.shared.driver.image_repository
    is_private = private is not None and upstream.startswith(private)
    name = upstream if is_private else site.registry.rewritten(upstream)
    reference, _, note = upstream.partition(" ")
    return Image(name.partition(" ")[0], reference, digest(reference), note)
